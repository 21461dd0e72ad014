package app

import (
	"context"
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

	"github.com/muster-fleet/muster/internal/agent"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/firststart"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/demo"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/serverlog"
	"github.com/muster-fleet/muster/internal/version"
)

// Up is `muster up`, a server and an agent for one machine in one process.
type Up struct {
	Config  *config.Server
	Demo    int    // number of simulated nodes
	NoDemo  bool   // deletes the simulated nodes of an earlier start
	Context string // path of the context file
	Program string // name of this program in printed commands
	Out     io.Writer
	Log     *slog.Logger
	Book    *serverlog.Log // destination of Log; nil: another one

	replaced firststart.ReplacedContext
}

// Run runs muster up, a server and an agent in one process, until ctx ends.
func (u *Up) Run(ctx context.Context) error {
	s, err := Open(ctx, u.Config, u.Log)
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Close(); err != nil {
			u.Log.Error("cannot close a part of the server", "err", err)
		}
	}()
	if u.Book != nil {
		s.logTail = u.Book.Tail
	}
	password, err := firststart.CreateAdmin(ctx, s.access, s.cfg.AdminPasswordFile)
	if err != nil {
		return err
	}
	err = firststart.ApplyDefaultChecks(ctx, s.intent)
	if err == nil {
		err = u.saveContext(ctx, s)
	}
	var a *agent.Agent
	if err == nil {
		a, err = u.newAgent(ctx, s)
	}
	if err != nil {
		u.showPassword(password) // no later start shows it
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	// Agents stop before the server: otherwise the server does not learn of their planned stop and calls the nodes silent.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	g.Go(func() error { return s.Run(serving) })
	var agents sync.WaitGroup
	runAgent := func(run func() error) {
		agents.Add(1)
		g.Go(func() error {
			defer agents.Done()
			return run()
		})
	}
	runAgent(func() error {
		if err := a.Run(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("run the agent of this machine: %w", err)
		}
		return nil
	})
	switch {
	case u.Demo > 0:
		runAgent(func() error { return runDemo(ctx, s, u.Demo) })
	case u.NoDemo:
		runAgent(func() error { return demo.Fleet{Service: s.intent}.Forget(ctx) })
	}
	g.Go(func() error {
		u.awaitReady(ctx, s, password)
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		fmt.Fprintln(u.Out, "Stopping. Received results are on disk.")
		stopped := make(chan struct{})
		go func() {
			agents.Wait()
			close(stopped)
		}()
		select {
		case <-stopped:
		case <-time.After(agentStopTime):
		}
		stopServing()
		return nil
	})
	return g.Wait()
}

// agentStopTime is the time that a stop waits for agents: their commands have 5 s to end.
const agentStopTime = 6 * time.Second

// slowStart is the duration of a start after which its reason is shown.
const slowStart = 3 * time.Second

// awaitReady waits until the server is ready, and prints the start page of muster up. The page has addresses, paths
// and commands. After slowStart it prints the reason why the server is not ready. It prints a new password in any
// case.
func (u *Up) awaitReady(ctx context.Context, s *Server, password string) {
	late, tick := time.After(slowStart), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for len(s.NotReady()) > 0 {
		select {
		case <-ctx.Done():
			u.showPassword(password)
			return
		case <-late:
			reason := strings.Join(s.NotReady(), "; ")
			fmt.Fprintf(u.Out, "Not ready yet: %s.\nThe server continues its start. See the log: %s\n", strings.TrimSuffix(reason, "."), u.Config.LogFile)
			if strings.Contains(reason, "disk is full") {
				fmt.Fprintln(u.Out, "Free disk space, or start with a smaller reserve: --journal-reserve 16MiB")
			}
			fmt.Fprintln(u.Out)
		case <-tick.C:
		}
	}
	u.showStart(s, password)
}

// showPassword prints the generated password of the new administrator if muster up fails later in its start.
// Usually the start page of muster up shows the password.
func (u *Up) showPassword(password string) {
	if password != "" {
		fmt.Fprintf(u.Out, "user admin, password %s (shown once)\n", password)
	}
}

// newAgent creates the agent of the machine on which muster up runs. It connects by TCP like any other.
func (u *Up) newAgent(ctx context.Context, s *Server) (*agent.Agent, error) {
	address := localAddress(s.forAgents())
	cfg := agent.Config{
		StateDir: s.path("agent"), Servers: []string{address}, Version: version.Get().Version,
		Log: u.Log.With("part", "agent"), Commands: agent.Commands{Guard: s.guard},
	}
	_, err := pki.LoadIdentity(cfg.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		token, keep, err := s.authority.NewToken([]string{address}, pki.JoinToken{
			Namespace: model.DefaultNamespaceName, MaxUses: 1, Expires: s.now().Add(time.Hour), By: "server", Note: "agent of muster up",
		})
		if err != nil {
			return nil, err
		}
		if err := (intent.JoinTokens{Store: s.intent.Store()}).Create(ctx, firststart.ServerActor("join token created"), keep); err != nil {
			return nil, err
		}
		cfg.Token = token.String()
	} else if err != nil {
		return nil, err
	}
	return agent.New(cfg)
}

// showStart prints the start page of muster up with addresses, paths and useful commands.
func (u *Up) showStart(s *Server, password string) {
	data, err := filepath.Abs(u.Config.Data)
	if err != nil {
		data = u.Config.Data
	}
	fmt.Fprintf(u.Out, "Muster %s watches this machine.\n\n", version.Get().Version)
	fmt.Fprintf(u.Out, "  address   %s\n            listens on %s\n", localURL(s.people), reachableFromText(s.people.Addr().String()))
	if password != "" {
		fmt.Fprintf(u.Out, "  user      admin\n  password  %s   (shown once)\n            a new one: %s auth reset-password --data %s\n", password, u.Program, u.Config.Data)
	}
	fmt.Fprintf(u.Out, "  data      %s\n", data)
	if u.Config.LogFile != "" {
		fmt.Fprintf(u.Out, "  log       %s\n", u.Config.LogFile)
	}
	fmt.Fprintf(u.Out, "  context   %s\n", u.Context)
	if u.replaced.File != "" {
		fmt.Fprintf(u.Out, "            the earlier one, of %s, moved to\n            %s (use it: --context-file FILE, or move it back)\n", u.replaced.Server, u.replaced.File)
	}
	all := ""
	if u.Demo > 0 {
		fmt.Fprintf(u.Out, "  demo      %d simulated machines, in namespace demo\n", u.Demo)
		all = " -A"
	} else if left := len(s.directory.Nodes(demo.Namespace)); left > 0 && !u.NoDemo {
		fmt.Fprintf(u.Out, "  demo      %d simulated machines of an earlier --demo are stopped;\n            delete them: --demo 0\n", left)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "NAME"
	}
	fmt.Fprint(u.Out, "\nIn a second terminal:\n\n")
	this := " describe node " + intent.NodeName(host)
	wide := len(u.Program) + max(len(this), len(" get events")+len(all))
	for _, n := range [][2]string{{" status", "open problems and silent machines, the worst first"}, {" get events" + all, "all events, the worst first"},
		{this, "this machine"}, {" node token", "prints the command that adds another machine"}} {
		fmt.Fprintf(u.Out, "  %-*s   %s\n", wide, u.Program+n[0], n[1])
	}
	fmt.Fprint(u.Out, "\nCtrl-C stops Muster; its data stays.\n")
}

// runDemo runs simulated agents in addition to the real one, for muster up --demo.
func runDemo(ctx context.Context, s *Server, nodes int) error {
	certificates, err := simulated.Certificates(s.authority)
	if err != nil {
		return err
	}
	return demo.Fleet{Nodes: nodes, Server: localAddress(s.people), TLS: certificates, Service: s.intent, Log: s.log.With("part", "demo")}.Run(ctx)
}

// saveContext writes the server's address and login to the context file, for later muster commands. It has the
// address and the CA of the server.
func (u *Up) saveContext(ctx context.Context, s *Server) error {
	c := client.Context{Server: localURL(s.people), CA: string(s.authority.CAPEM())}
	if s.admin != nil {
		c.Admin = s.admin.Addr().String()
	}
	var err error
	if c.Data, err = filepath.Abs(u.Config.Data); err != nil {
		return fmt.Errorf("find the absolute path of the data folder %q for the context file: %w", u.Config.Data, err)
	}
	u.replaced, err = firststart.SaveContext(ctx, s.access, u.Context, c, s.now())
	return err
}

// reachableFromText describes which machines can connect to an address, such as only the server's own machine.
func reachableFromText(address string) string {
	host, port, _ := net.SplitHostPort(address)
	switch ip := net.ParseIP(host); {
	case ip.IsLoopback():
		return address + ", for this machine alone"
	case ip.IsUnspecified():
		return "port " + port + " of all addresses, for other machines too; for this one alone: --listen 127.0.0.1:" + port
	}
	return address + ", for other machines too; for this one alone: --listen 127.0.0.1:" + port
}

// localURL returns the URL of a listener for programs on the server's machine.
func localURL(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "https://" + net.JoinHostPort("localhost", port)
}
