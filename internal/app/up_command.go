package app

import (
	"cmp"
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
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load/demo"
	"github.com/muster-fleet/muster/internal/load/simulated"
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
	Demo    int    // number of simulated nodes
	NoDemo  bool   // deletes the simulated nodes of an earlier start
	Context string // path of the context file
	Program string // name of this program in printed commands
	Out     io.Writer
	Log     *slog.Logger
	Book    *serverlog.Log // destination of Log; nil: another one

	replacedServer string // server of another server's context that was in the file Context; empty: none
	replacedFile   string // file that the other server's context moved to
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
	password, err := createAdmin(ctx, s.access, s.cfg.AdminPasswordFile)
	if err != nil {
		return err
	}
	err = applyStarter(ctx, s.intent)
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

// awaitReady waits until the server is ready, and prints the start page of muster up (addresses, paths and commands).
// After slowStart it prints the reason why the server is not ready. It prints a new password in any case.
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

// showPassword prints the password of the new administrator if the start page of muster up, which usually shows it,
// was not printed.
func (u *Up) showPassword(password string) {
	if password != "" {
		fmt.Fprintf(u.Out, "user admin, password %s (shown once)\n", password)
	}
}

// createAdmin creates the user admin on a server without users. It reads the password from a file, or generates and
// returns a password.
func createAdmin(ctx context.Context, users *access.Service, passwordFile string) (password string, err error) {
	if users.HasUsers() {
		return "", nil
	}
	given := ""
	if passwordFile != "" {
		if given, err = offline.ReadPassword(passwordFile, os.Stdin); err != nil {
			return "", fmt.Errorf("read the file of --admin-password-file: %w", err)
		}
	}
	made, err := users.CreateUser(ctx, serverActor("first start"), access.User{Name: "admin", Grants: access.Grants{Role: access.Admin, Run: true}}, given)
	if err != nil || given != "" {
		return "", err
	}
	return made, nil
}

// serverActor returns the author "server" for changes in the audit that the server itself makes.
func serverActor(reason string) intent.Actor {
	return intent.Actor{User: "server", Address: "local", Message: reason}
}

// applyStarter declares the default checks of muster up on a server that has never had a check.
func applyStarter(ctx context.Context, service *intent.Service) error {
	changes, err := service.Store().Changes(ctx, 0, 1000)
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
	_, err = service.Apply(ctx, serverActor("first start: applied the starter set of checks"), resources, intent.ApplyOptions{Yes: true})
	return err
}

// newAgent creates the agent of this machine. It connects by TCP like any other.
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
		if err := (intent.JoinTokens{Store: s.intent.Store()}).Create(ctx, serverActor("join token created"), keep); err != nil {
			return nil, err
		}
		cfg.Token = token.String()
	} else if err != nil {
		return nil, err
	}
	return agent.New(cfg)
}

// showStart prints the start page of muster up: addresses, paths and useful commands.
func (u *Up) showStart(s *Server, password string) {
	data, err := filepath.Abs(u.Config.Data)
	if err != nil {
		data = u.Config.Data
	}
	fmt.Fprintf(u.Out, "Muster %s watches this machine.\n\n", version.Get().Version)
	fmt.Fprintf(u.Out, "  address   %s\n            listens on %s\n", localURL(s.people), reachText(s.people.Addr().String()))
	if password != "" {
		fmt.Fprintf(u.Out, "  user      admin\n  password  %s   (shown once)\n            a new one: %s auth reset-password --data %s\n", password, u.Program, u.Config.Data)
	}
	fmt.Fprintf(u.Out, "  data      %s\n", data)
	if u.Config.LogFile != "" {
		fmt.Fprintf(u.Out, "  log       %s\n", u.Config.LogFile)
	}
	fmt.Fprintf(u.Out, "  context   %s\n", u.Context)
	if u.replacedFile != "" {
		fmt.Fprintf(u.Out, "            the earlier one, of %s, moved to\n            %s (use it: --context-file FILE, or move it back)\n", u.replacedServer, u.replacedFile)
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

// saveContext writes the context file by which the command line finds this server. A valid token of this server in
// the file stays. The context of another server first moves to a file beside it; an earlier context of this server
// that moved in this way is used again.
func (u *Up) saveContext(ctx context.Context, s *Server) error {
	c := client.Context{Server: localURL(s.people), CA: string(s.authority.CAPEM())}
	if s.admin != nil {
		c.Admin = s.admin.Addr().String()
	}
	var err error
	if c.Data, err = filepath.Abs(u.Config.Data); err != nil {
		return fmt.Errorf("write context file: %w", err)
	}
	earlier, err := client.LoadContext(u.Context)
	if err != nil {
		return err
	}
	if (earlier.Server != "" || earlier.Token != "") && !sameServer(s.access, &earlier, &c) {
		if u.replacedFile, err = client.BackUpContext(u.Context, earlier); err != nil {
			return err
		}
		u.replacedServer = cmp.Or(earlier.Server, "no server")
		earlier = movedContext(s.access, u.Context, &c)
	}
	c.Namespace, c.Token = earlier.Namespace, earlier.Token
	who, err := s.access.Authenticate(earlier.Token)
	if c.User = who.User; err != nil {
		c.User = "admin"
		c.Token, _, err = s.access.CreateToken(ctx, intent.Actor{User: "admin", Address: "local", Message: "muster up"},
			access.AccessToken{User: "admin", Grants: adminGrants(s.access), Expires: s.now().Add(access.TokenLifetime).UTC(), Note: "context file of muster up"})
		if err != nil {
			return err
		}
	}
	return client.SaveContext(u.Context, c)
}

// adminGrants returns the rights of the user admin; the right to run commands is among them if the user admin has it
// already.
func adminGrants(users *access.Service) access.Grants {
	g := access.Grants{Role: access.Admin}
	for _, u := range users.Users() {
		g.Run = g.Run || u.Name == "admin" && u.Run
	}
	return g
}

// sameServer reports whether a context (saved login) belongs to this server, whose own context is the parameter now.
// An equal address is not enough: another data folder is another server. Equal CA and tokens are not enough: a copy
// of the data folder has them, too.
func sameServer(users *access.Service, c, now *client.Context) bool {
	if c.Server != "" && c.Server != now.Server && c.Data != now.Data {
		return false
	}
	if c.CA != "" && pki.SumOfPEM([]byte(c.CA)) == pki.SumOfPEM([]byte(now.CA)) {
		return true
	}
	_, err := users.Authenticate(c.Token)
	return err == nil
}

// movedContext returns this server's saved login that the login of another server had replaced, or an empty one if
// there is none or its token is invalid.
func movedContext(users *access.Service, path string, now *client.Context) client.Context {
	for _, file := range client.ContextBackups(path, now.Server) {
		c, err := client.LoadContext(file)
		if err != nil || !sameServer(users, &c, now) {
			continue
		}
		if _, err := users.Authenticate(c.Token); err == nil {
			return c
		}
	}
	return client.Context{}
}

// reachText returns an address with words for the machines that can reach it, such as this machine only.
func reachText(address string) string {
	host, port, _ := net.SplitHostPort(address)
	switch ip := net.ParseIP(host); {
	case ip.IsLoopback():
		return address + ", for this machine alone"
	case ip.IsUnspecified():
		return "port " + port + " of all addresses, for other machines too; for this one alone: --listen 127.0.0.1:" + port
	}
	return address + ", for other machines too; for this one alone: --listen 127.0.0.1:" + port
}

// localURL returns the URL of a listener for programs on this machine.
func localURL(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "https://" + net.JoinHostPort("localhost", port)
}
