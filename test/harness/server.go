//go:build linux

package harness

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// Server is a Muster server for tests. It has a data folder, ports and, while it runs, a Process.
type Server struct {
	*Process
	t testing.TB

	Data    string
	Context string   // file by which commands find the server
	Listen  string   // people and agents, TLS
	Plain   string   // agents, without TLS
	Admin   string   // metrics, readyz, states
	Args    []string // further settings
	Command string   // server or up
	Wrap    []string // command in front of the binary, such as a tracer
	Environ []string // environment of server and commands, in addition to PATH and MUSTER_CONTEXT
	On      *Machine // machine of a Network that runs server and commands; nil: this machine
	Dir     string   // working folder; empty: the test's own

	API *client.Client // of the administrator; set by StartServer
}

// password of the administrator of every server here.
const password = "four plain test words"

// NewServer returns a server with a new data folder and free ports. It starts no process.
func NewServer(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	return &Server{
		t: t, Data: filepath.Join(dir, "data"), Context: filepath.Join(dir, "context.yaml"),
		Listen: ReservePort(t), Plain: ReservePort(t), Admin: ReservePort(t), Args: args, Command: "server",
	}
}

// StartServer starts a server, waits until the server is ready, and logs in.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	s := NewServer(t, args...)
	s.Start()
	s.API = s.Client()
	return s
}

// StartFleet starts a server with a fleet's nodes and checks, and logs in.
func StartFleet(t testing.TB, f Fleet, args ...string) *Server {
	t.Helper()
	s := NewServer(t, args...)
	s.Prepare(f)
	s.Start()
	s.API = s.Client()
	return s
}

// Env returns the environment variables for commands that connect to the server.
func (s *Server) Env() []string {
	return append([]string{"MUSTER_CONTEXT=" + s.Context}, s.Environ...)
}

// Launch starts the server's process without waiting.
func (s *Server) Launch() {
	s.t.Helper()
	testenv.NoError(s.t, os.MkdirAll(s.Data, 0o700))
	args := []string{s.Command, "--data", s.Data, "--listen", s.Listen, "--listen-admin", s.Admin}
	if s.Plain != "" {
		args = append(args, "--listen-plain", s.Plain)
	}
	if s.Command == "server" {
		file := filepath.Join(filepath.Dir(s.Context), "password")
		testenv.NoError(s.t, os.WriteFile(file, []byte(password), 0o600))
		args = append(args, "--admin-password-file", file, "--journal-reserve", "1MiB")
	}
	words := append([]string{}, s.Wrap...)
	if s.On != nil {
		words = append(s.On.CommandPrefix(), words...)
	}
	s.Process = launch(s.t, s.Dir, s.Env(), append(append(words, Binary()), append(args, s.Args...)...))
}

// Start starts the process, and waits until the server is ready.
func (s *Server) Start() {
	s.t.Helper()
	s.Launch()
	s.WaitReady(40 * time.Second)
}

// WaitReady waits until the server's page readyz answers ok.
func (s *Server) WaitReady(within time.Duration) {
	s.t.Helper()
	Until(s.t, within, "the server is ready", func() (string, bool) {
		if s.Ended() {
			s.t.Fatalf("the server ended while it started:\n%s", tail(s.Log(), 40))
		}
		why, ok := s.Ready()
		return why, ok
	})
}

// Ready returns the answer of the page /readyz, and whether the server is ready.
func (s *Server) Ready() (string, bool) {
	code, body, err := s.GetAdmin("/readyz")
	if err != nil {
		return err.Error(), false
	}
	return body, code == http.StatusOK
}

// GetAdmin sends a GET request to the admin listener and returns the status and body of the answer.
func (s *Server) GetAdmin(path string) (int, string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if s.On != nil {
		transport.DialContext = s.On.Dial
	}
	c := http.Client{Timeout: 20 * time.Second, Transport: transport}
	resp, err := c.Get("http://" + s.Admin + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// Metric returns a metric's value, summed over all series whose labels contain the given texts.
func (s *Server) Metric(name string, labels ...string) float64 {
	s.t.Helper()
	_, body, err := s.GetAdmin("/metrics")
	if err != nil {
		s.t.Fatalf("read metrics: %v", err)
	}
	sum := 0.0
next:
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue next
			}
		}
		var v float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(strings.TrimSpace(rest), ' ')+1:], &v); err == nil {
			sum += v
		}
	}
	return sum
}

// AwaitMetric waits until a metric's sum reaches a value. The sum is over the selected series.
func (s *Server) AwaitMetric(least float64, name string, labels ...string) {
	s.t.Helper()
	Until(s.t, time.Minute, fmt.Sprintf("%s %v is at least %v", name, labels, least), func() (string, bool) {
		n := s.Metric(name, labels...)
		return fmt.Sprint(n), n >= least
	})
}

// Pause suspends the server with the signal SIGSTOP until Resume.
func (s *Server) Pause() { s.t.Helper(); s.Signal(syscall.SIGSTOP) }

// Resume continues the suspended server with the signal SIGCONT.
func (s *Server) Resume() { s.t.Helper(); s.Signal(syscall.SIGCONT) }

// Try runs a muster command against the server and returns its exit code and output.
func (s *Server) Try(args ...string) Result {
	s.t.Helper()
	if s.On != nil {
		return s.On.Run(s.Env(), args...)
	}
	return Run(s.t, s.Env(), args...)
}

// Login logs in to the server, and writes the context file for commands.
func (s *Server) Login() {
	s.t.Helper()
	s.CLI("login", "https://"+s.Listen, "--ca", filepath.Join(s.Data, "pki", "ca.crt"), "--password-file", filepath.Join(filepath.Dir(s.Context), "password"))
}

// CLI runs a muster command against the server, and fails the test unless the command succeeds.
func (s *Server) CLI(args ...string) string {
	s.t.Helper()
	r := s.Try(args...)
	if r.Code != 0 {
		s.t.Fatalf("muster %v: code %d\n%s%s", args, r.Code, r.Out, r.Errors)
	}
	return r.Out
}

// AwaitOutput repeats a command until the command prints all given texts. The words of the command are separated by
// spaces.
func (s *Server) AwaitOutput(command string, texts ...string) (output string) {
	s.t.Helper()
	Until(s.t, 90*time.Second, fmt.Sprintf("muster %s prints %q", command, texts), func() (string, bool) {
		r := s.Try(strings.Fields(command)...)
		output = r.Out + r.Errors
		return output, !slices.ContainsFunc(texts, func(text string) bool { return !Contains(output, text) })
	})
	return output
}

// Client returns an API client of the administrator. It also writes the context file for commands.
func (s *Server) Client() *client.Client {
	s.t.Helper()
	var c client.Context
	if s.Command == "server" {
		ca := testenv.Value(os.ReadFile(filepath.Join(s.Data, "pki", "ca.crt")))(s.t)
		c = client.Context{Server: "https://" + s.Listen, CA: string(ca)}
		first := testenv.Value(client.New(c))(s.t)
		session, err := first.Access.Login(s.t.Context(), "admin", password)
		if err != nil {
			s.t.Fatalf("log in: %v", err)
		}
		c.Token, c.User = session.Token, session.User
		testenv.NoError(s.t, client.SaveContext(s.Context, c))
	} else {
		var err error
		if c, err = client.LoadContext(s.Context); err != nil {
			s.t.Fatal(err)
		}
	}
	api := testenv.Value(client.New(c))(s.t)
	return api
}

// Authority opens the server's CA, to issue certificates.
func (s *Server) Authority() *pki.Authority {
	s.t.Helper()
	a := testenv.Value(pki.Open(filepath.Join(s.Data, "pki"), []string{"localhost"}, time.Now))(s.t)
	return a
}

// Clone returns another test server on a copy of the server's data folder.
func (s *Server) Clone(t testing.TB) *Server {
	t.Helper()
	c := NewServer(t, s.Args...)
	CopyFolder(t, s.Data, c.Data)
	return c
}

// ReservePort reserves a free port on loopback until the end of the test, and returns its address. The port lies below the
// range from which the kernel takes ports, and no other process can take it.
func ReservePort(t testing.TB) string { t.Helper(); return testenv.Port(t) }

// Fleet describes a simulated fleet by its numbers of agents and checks, and the check interval. It has the
// numbers of agents and checks, and the interval of the checks.
type Fleet struct {
	Agents, Checks int
	Interval       time.Duration
	OutputBytes    int     // of each result; default 100
	Changes        float64 // share of results that change the status; default 0.02, negative: none
}

// Scenario returns a load scenario that simulates the fleet for a time.
func (f Fleet) Scenario(duration time.Duration) *scenario.Scenario {
	return scenario.Uniform{Agents: f.Agents, Checks: f.Checks, Interval: f.Interval, OutputBytes: f.OutputBytes, Changes: max(0, cmp.Or(f.Changes, 0.02)),
		Steady: duration, Warmup: time.Second, Drain: time.Minute, Linger: 100 * time.Millisecond}.Scenario()
}

// NodeName returns the name of the i-th node of a fleet.
func NodeName(i int) string { return simulated.MemberName(scenario.UniformClass, i) }

// NodeUID returns the id of the i-th node of a fleet.
func NodeUID(i int) uuid.UUID { return simulated.MemberUID(0, scenario.UniformClass, i) }

// WriteScenario writes a load scenario of the fleet to a file, and returns the file's path. args are further
// arguments of the command. A scenario file has no interval below a second; LoadConfig may play one.
func (f Fleet) WriteScenario(t testing.TB, args ...string) string {
	t.Helper()
	made := Run(t, nil, append([]string{"load", "new", "--agents", fmt.Sprint(f.Agents), "--checks", fmt.Sprint(f.Checks), "--interval", max(time.Second, f.Interval).String()}, args...)...).Expect(0)
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(made.Out), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Prepare writes the nodes and checks of a simulated fleet into the data folder of the stopped server. The server is
// stopped meanwhile. More arguments name its stores.
func (s *Server) Prepare(f Fleet, args ...string) {
	s.t.Helper()
	s.CLI(append([]string{"load", "prepare", f.WriteScenario(s.t), "--data", s.Data}, args...)...)
}

// LoadConfig returns the configuration of a load run on the test server. The load run compares the sent results with
// the server's events.
func (s *Server) LoadConfig(f Fleet, duration time.Duration) load.Config {
	return load.Config{
		Options: play.Options{Server: s.Plain, Scenario: f.Scenario(duration)}, Subject: load.Subject{Before: s.EventStateReader()},
		MaxLag: time.Hour, // these tests check correctness on any machine: only lost results count
	}
}

// LoadConfigTLS returns the configuration of a load run on the test server with mutual TLS.
func (s *Server) LoadConfigTLS(f Fleet, duration time.Duration) load.Config {
	s.t.Helper()
	cfg := s.LoadConfig(f, duration)
	certificates := testenv.Value(simulated.Certificates(s.Authority()))(s.t)
	cfg.Server, cfg.TLS, cfg.Scenario.Agents[0].TLS = s.Listen, certificates, true
	return cfg
}

// EventStateReader returns a reader of the server's event states, for a load run. The load tester compares its
// sent results with these states.
func (s *Server) EventStateReader() play.View {
	return play.HTTPView("http://" + s.Admin + "/debug/states")
}

// StateKey identifies the state of an event by the ids of node and check.
type StateKey struct{ Node, Check uint64 }

// States returns all event states of the server, with node and check as keys.
func (s *Server) States() map[StateKey]observe.EventState {
	s.t.Helper()
	out := map[StateKey]observe.EventState{}
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	err := s.EventStateReader()(ctx, func(k observe.EventState) error {
		out[StateKey{uint64(k.Node), uint64(k.Check)}] = k
		return nil
	})
	if err != nil {
		s.t.Fatalf("read states: %v", err)
	}
	return out
}

// FleetStates returns the event states of declared checks, without built-in checks.
func (s *Server) FleetStates() map[StateKey]observe.EventState {
	s.t.Helper()
	all := s.States()
	maps.DeleteFunc(all, func(p StateKey, _ observe.EventState) bool { return p.Check < uint64(model.FirstCheck) })
	return all
}
