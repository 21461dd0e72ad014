package subject

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

// Options holds the program, folder and flags of the server to start.
type Options struct {
	Binary  string                                             // its program; empty: this one
	Dir     string                                             // where its folder is made; empty: the system's folder for temporary files
	Flags   []string                                           // more words for `muster server`
	Cores   int                                                // that it may use at once (GOMAXPROCS); 0: all of the machine
	Prepare func(ctx context.Context, s *intent.Service) error // fills the folder before the first start; nil: it is empty
	Say     func(format string, args ...any)                   // hears what takes a while; nil: nobody does
}

// Subject is the server under test.
type Subject struct {
	Plain string // the agents' listener without TLS, host:port; empty: none
	TLS   string // that of people and agents with TLS
	Admin string // URL of the admin listener; empty: none
	Data  string // its data folder; empty: not known
	CA    []byte // certificate of its authority, PEM, where agents are to use TLS
	Log   string // file with its log; empty: read from the admin listener
	Flags []string

	Startup report.Startup // of a server that the run started
	API     *client.Client // as administrator, or as who is logged in; nil: nobody is

	own     bool
	dir     string // holds the data folder, the log and the password
	words   []string
	cores   int
	guard   guard.Guard
	mu      sync.Mutex
	running *process // nil: it does not run
	stopped bool     // for good: it is not started again
	fell    string   // how a process ended that nobody was to end; empty: none did
}

// Start prepares a folder and starts a server on it. The caller stops it.
func Start(ctx context.Context, o Options) (_ *Subject, err error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	if o.Binary, err = program(o.Binary); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "muster-load-")
	if err != nil {
		return nil, model.Errorf(model.Invalid, "make a folder for the server under test: %w", err).WithHint("it is made under TMPDIR, which has to be a folder with room: TMPDIR=/tmp")
	}
	s := &Subject{own: true, dir: dir, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log"), Flags: o.Flags, cores: o.Cores}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if err := s.prepare(ctx, o); err != nil {
		return nil, err
	}
	password := rand.Text()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
		return nil, fmt.Errorf("write the administrator's password: %w", err)
	}
	free, err := ports(3)
	if err != nil {
		return nil, err
	}
	s.Plain, s.TLS, s.Admin = free[0], free[1], "http://"+free[2]
	s.words = append([]string{o.Binary, "server", "--data", s.Data, "--listen-plain", s.Plain, "--listen", s.TLS, "--listen-admin", free[2],
		"--admin-password-file", file, "--advertise", "localhost,127.0.0.1"}, o.Flags...)
	began := time.Now()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	used := usage.OfProcess(s.PID())
	s.Startup = report.Startup{Seconds: time.Since(began).Seconds(), CPU: used.CPU.Seconds(), RSS: used.RSS}
	if err := s.login(ctx, password); err != nil {
		return nil, err
	}
	return s, nil
}

// program returns the absolute path of the server's program, because the server starts in another folder.
func program(name string) (path string, err error) {
	if name == "" {
		if path, err = os.Executable(); err != nil {
			return "", fmt.Errorf("find this program: %w", err)
		}
		return path, nil
	}
	if path, err = exec.LookPath(name); err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", model.Errorf(model.NotFound, "the server's program: %w", err).WithHint("--server-binary names a file, or a program of the PATH")
	}
	return path, nil
}

// prepare fills the data folder's intent.
func (s *Subject) prepare(ctx context.Context, o Options) error {
	if err := os.Mkdir(s.Data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if o.Prepare == nil {
		return nil
	}
	o.Say("preparing %s", s.Data)
	return PrepareFolder(ctx, filepath.Join(s.Data, "intent.db"), o.Prepare)
}

// PrepareFolder opens the intent database of a stopped server, and calls fill to change it.
func PrepareFolder(ctx context.Context, db string, fill func(ctx context.Context, s *intent.Service) error) error {
	store, err := intentdb.Open(ctx, db, kind.All(), time.Now)
	if err != nil {
		return err
	}
	defer store.Close()
	service := intent.NewService(intent.Options{Store: store, Validate: func(*model.Resource) error { return nil }})
	if err := service.Load(ctx); err != nil {
		return err
	}
	return fill(ctx, service)
}

// login logs in once; the session lasts as long as the run.
func (s *Subject) login(ctx context.Context, password string) error {
	ca, err := os.ReadFile(filepath.Join(s.Data, "pki", "ca.crt"))
	if err != nil {
		return fmt.Errorf("read the authority of the server under test: %w", err)
	}
	known := client.Context{Server: "https://" + s.TLS, CA: string(ca)}
	first, err := client.New(known)
	if err != nil {
		return err
	}
	session, err := first.Access.Login(ctx, "admin", password)
	if err != nil {
		return fmt.Errorf("log in at the server under test: %w", err)
	}
	known.Token, known.User = session.Token, session.User
	s.API, err = client.New(known)
	return err
}

// Authority opens the server's CA, to make certificates with; NotFound where its data
// folder is not known.
func (s *Subject) Authority() (*pki.Authority, error) { return Authority(s.Data) }

// Authority opens the CA of a server's data folder.
func Authority(data string) (*pki.Authority, error) {
	dir := filepath.Join(data, "pki")
	if _, err := os.Stat(dir); err != nil {
		return nil, model.Errorf(model.NotFound, "no certificate authority in %s", dir).
			WithHint("start the server once, and give --data its data folder")
	}
	return pki.Open(dir, []string{"localhost"}, time.Now)
}

// Own reports whether the run started the server and will stop it.
func (s *Subject) Own() bool { return s.own }

// Stop stops the server, by force if that takes too long, and removes its folder. Further calls do nothing.
func (s *Subject) Stop() {
	if !s.own {
		return
	}
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.end(stopWithin)
	s.guard.Close()
	_ = os.RemoveAll(s.dir)
}
