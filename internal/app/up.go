package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/agent"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/offline"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/serverlog"
	"github.com/muster-fleet/muster/internal/version"
)

//go:embed starter.yaml
var starter []byte

// Up is `muster up`: a server and an agent for this machine in one process.
type Up struct {
	Config  *config.Server
	Demo    int    // simulated nodes
	NoDemo  bool   // delete the simulated nodes of an earlier start
	Context string // path of the context file
	Program string // how people call us, for the commands that are shown
	Out     io.Writer
	Log     *slog.Logger
	Book    *serverlog.Log // where Log writes; nil: elsewhere

	kept, aside string // of which server a context was at Context, and where it lies now; empty: none was, or it was ours
}

// Run runs both until ctx ends.
func (u *Up) Run(ctx context.Context) error {
	s, err := Open(ctx, u.Config, u.Log)
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Close(); err != nil {
			u.Log.Error("closing failed", "err", err)
		}
	}()
	if u.Book != nil {
		s.logTail = u.Book.Tail
	}
	password, err := s.firstAdmin(ctx)
	if err != nil {
		return err
	}
	a, err := u.prepare(ctx, s)
	if err != nil {
		u.showPassword(password) // nobody makes it again
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	// The guests leave before the host: a node whose goodbye nobody hears counts as silent.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	g.Go(func() error { return s.Run(serving) })
	var guests sync.WaitGroup
	guest := func(run func() error) {
		guests.Add(1)
		g.Go(func() error {
			defer guests.Done()
			return run()
		})
	}
	guest(func() error {
		if err := a.Run(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("agent of this machine: %w", err)
		}
		return nil
	})
	switch {
	case u.Demo > 0:
		guest(func() error { return s.demo(ctx, u.Demo) })
	case u.NoDemo:
		guest(func() error { return s.noDemo(ctx) })
	}
	g.Go(func() error {
		u.welcome(ctx, s, password)
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		fmt.Fprintln(u.Out, "Stopping: what came in is kept.")
		left := make(chan struct{})
		go func() {
			guests.Wait()
			close(left)
		}()
		select {
		case <-left:
		case <-time.After(guestsLeave):
		}
		stopServing()
		return nil
	})
	return g.Wait()
}

// prepare makes the starter set, the context file and the agent.
func (u *Up) prepare(ctx context.Context, s *Server) (*agent.Agent, error) {
	if err := s.firstChecks(ctx); err != nil {
		return nil, err
	}
	if err := u.saveContext(ctx, s); err != nil {
		return nil, err
	}
	return u.agent(ctx, s)
}

// guestsLeave is how long a stop waits for agents: a command that runs is given 5 s.
const guestsLeave = 6 * time.Second

// patience is how long a start may take before its reason is told.
const patience = 3 * time.Second

// welcome prints the start page when the server is ready, and before that, after some patience, the
// reason why it is not. It shows a new password in any case.
func (u *Up) welcome(ctx context.Context, s *Server, password string) {
	late, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for len(s.NotReady()) > 0 {
		select {
		case <-ctx.Done():
			u.showPassword(password)
			return
		case <-late:
			why := strings.Join(s.NotReady(), "; ")
			fmt.Fprintf(u.Out, "Not ready yet: %s.\nIt goes on by itself when that is over; %s says more.\n", strings.TrimSuffix(why, "."), u.Config.LogFile)
			if strings.Contains(why, "disk is full") {
				fmt.Fprintln(u.Out, "Free some disk, or, where it is small, start with --journal-reserve 16MiB.")
			}
			fmt.Fprintln(u.Out)
		case <-tick.C:
		}
	}
	u.showStart(s, password)
}

// showPassword prints a new password where the start page is not printed.
func (u *Up) showPassword(password string) {
	if password != "" {
		fmt.Fprintf(u.Out, "user admin, password %s (shown once)\n", password)
	}
}

// firstAdmin makes the user admin where nobody can log in, and returns the password
// if one was made.
func (s *Server) firstAdmin(ctx context.Context) (string, error) {
	if s.access.HasUsers() {
		return "", nil
	}
	given := ""
	if path := s.cfg.AdminPasswordFile; path != "" {
		var err error
		if given, err = offline.ReadPassword(path, os.Stdin); err != nil {
			return "", fmt.Errorf("admin-password-file: %w", err)
		}
	}
	by := intent.Actor{User: "server", Whence: "local", Why: "first start"}
	made, err := s.access.CreateUser(ctx, by, access.User{Name: "admin", Grants: access.Grants{Role: access.Admin, Run: true}}, given)
	if err != nil || given != "" {
		return "", err
	}
	return made, nil
}

// firstChecks applies the starter set to an installation that has no checks and never had.
func (s *Server) firstChecks(ctx context.Context) error {
	changes, err := s.intent.Store().Changes(ctx, 0, 1000)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.Key.Kind == "Check" {
			return nil
		}
	}
	decoded, err := kind.All().Decode("starter.yaml", starter)
	if err != nil {
		return err
	}
	resources := make([]model.Resource, len(decoded))
	for i := range decoded {
		resources[i] = decoded[i].Resource
	}
	_, err = s.intent.Apply(ctx, intent.Actor{User: "server", Whence: "local", Why: "first start: the starter set"}, resources, intent.ApplyOptions{Yes: true})
	return err
}

// agent makes the agent of this machine: an ordinary one, over a real session.
func (u *Up) agent(ctx context.Context, s *Server) (*agent.Agent, error) {
	listener := s.people
	if s.agents != nil {
		listener = s.agents
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	address := net.JoinHostPort("127.0.0.1", port)
	cfg := agent.Config{
		StateDir: s.path("agent"), Servers: []string{address}, Version: version.Get().Version,
		Log: u.Log.With("part", "agent"), Guard: s.guard,
	}
	_, err := pki.LoadIdentity(cfg.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		token, keep, err := s.authority.NewToken([]string{address}, pki.JoinToken{
			Namespace: model.DefaultNamespaceName, MaxUses: 1, Expires: s.now().Add(time.Hour), By: "server", Note: "agent of muster up",
		})
		if err != nil {
			return nil, err
		}
		if err := (intent.JoinTokens{Store: s.intent.Store()}).Create(ctx, intent.Actor{User: "server", Whence: "local", Why: "join token created"}, keep); err != nil {
			return nil, err
		}
		cfg.Token = token.String()
	} else if err != nil {
		return nil, err
	}
	return agent.New(cfg)
}

// showStart prints the start page: addresses, paths and the next commands.
func (u *Up) showStart(s *Server, password string) {
	data, err := filepath.Abs(u.Config.Data)
	if err != nil {
		data = u.Config.Data
	}
	fmt.Fprintf(u.Out, "Muster %s watches this machine.\n\n", version.Get().Version)
	fmt.Fprintf(u.Out, "  address   %s\n", s.localURL())
	if password != "" {
		fmt.Fprintf(u.Out, "  user      admin\n  password  %s   (shown once)\n            a new one: %s auth reset-password --data %s\n", password, u.Program, u.Config.Data)
	}
	fmt.Fprintf(u.Out, "  data      %s\n", data)
	if u.Config.LogFile != "" {
		fmt.Fprintf(u.Out, "  log       %s\n", u.Config.LogFile)
	}
	fmt.Fprintf(u.Out, "  context   %s\n", u.Context)
	if u.aside != "" {
		fmt.Fprintf(u.Out, "            the one that was there, of %s, is kept as\n            %s (--context-file FILE, or mv it back)\n", u.kept, u.aside)
	}
	all := ""
	if u.Demo > 0 {
		fmt.Fprintf(u.Out, "  demo      %d simulated machines, in namespace demo\n", u.Demo)
		all = " -A"
	} else if left := s.demoLeft(); left > 0 && !u.NoDemo {
		fmt.Fprintf(u.Out, "  demo      %d simulated machines of an earlier --demo are kept, and stand still;\n            --demo 0 takes them away\n", left)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "NAME"
	}
	fmt.Fprint(u.Out, "\nIn a second terminal:\n\n")
	next := [][2]string{
		{u.Program + " status", "is all well?"}, {u.Program + " get events" + all, "what is judged, worst first"},
		{u.Program + " describe node " + intent.NodeName(host), "all there is to know of this machine"},
		{u.Program + " node token", "the line with which another machine joins"},
	}
	wide := 0
	for _, n := range next {
		wide = max(wide, len(n[0]))
	}
	for _, n := range next {
		fmt.Fprintf(u.Out, "  %-*s   %s\n", wide, n[0], n[1])
	}
	fmt.Fprint(u.Out, "\nCtrl-C stops it; the data stays.\n")
}
