package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestMain runs the test binary as a real agent if AGENT_UNDER_TEST names a state folder. A test can then kill the
// agent's process.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AGENT_UNDER_TEST"); dir != "" {
		a, err := New(Config{StateDir: dir, Token: os.Getenv("AGENT_TOKEN"), Linger: 50 * time.Millisecond, FirstWithin: 50 * time.Millisecond})
		if err == nil {
			err = a.Run(context.Background())
		}
		println(err.Error())
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// testConfig returns agent settings with short delays, for the test server.
func testConfig(s *testServer, dir string) Config {
	return Config{
		StateDir: dir, Token: s.token, Linger: 20 * time.Millisecond, FirstWithin: 50 * time.Millisecond,
		StopGrace: time.Second, Labels: map[string]string{"env": "test"}, Version: "1.2.3",
	}
}

// startAgent starts an agent for a test, and returns the agent and a stop function. The returned function stops the
// agent and returns the error of Run.
func startAgent(t testing.TB, cfg Config) (*Agent, func() error) {
	t.Helper()
	a, err := New(cfg)
	testenv.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			return errors.New("the agent does not stop")
		}
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return a, stop
}

// shellCheck returns a check that runs a shell line in each interval.
func shellCheck(id model.DefinitionID, line string, interval time.Duration) *model.CheckDefinition {
	return &model.CheckDefinition{
		Definition: model.Definition{ID: id, Unit: model.FirstCheck + model.CheckID(id), Name: "check"}, Command: &model.Command{Shell: line},
		Interval: interval, Timeout: 5 * time.Second, FailAfter: 1, RecoverAfter: 1,
	}
}

// TestJoinedAgentRunsItsChecks enrols an agent and expects results of commands and probes, with expanded properties.
func TestJoinedAgentRunsItsChecks(t *testing.T) {
	s := newTestServer(t)
	disk := shellCheck(2, "", time.Hour)
	disk.Command, disk.Probe = nil, &model.Probe{Name: "disk", Args: map[string]string{"path": `{{ .props.mount | default "/" }}`, "warn": "0%", "crit": "0%"}}
	s.assign(
		[]wire.Property{{Name: "greeting", Value: []byte(`"it's $HOME"`)}, {Name: "torn", Error: "groups web and db disagree"}},
		shellCheck(1, "echo {{ .props.greeting }}; exit 1", time.Hour), disk,
		shellCheck(3, "echo {{ .props.unset }}", time.Hour), shellCheck(4, "echo {{ .props.torn }}", time.Hour),
		shellCheck(5, "exit 77", time.Hour),
	)
	a, stop := startAgent(t, testConfig(s, t.TempDir()))
	s.awaitCondition("five results", func() bool { return len(s.results) >= 5 })
	s.mu.Lock()
	for id, want := range map[model.DefinitionID]struct {
		status model.Status
		text   string
	}{
		1: {model.Warning, "it's $HOME"}, 2: {model.OK, "DISK OK - / "},
		3: {model.Unknown, `property "unset" is not set and has no default`},
		4: {model.Unknown, `property "torn" has no value here: groups web and db disagree`},
		5: {model.Unknown, "exit code 77"},
	} {
		if r := s.resultsOf(id); len(r) != 1 || r[0].Status != want.status || !bytes.Contains(r[0].Output, []byte(want.text)) {
			t.Errorf("definition %d: %+v", id, r)
		}
	}
	if h := s.hellos[0]; h.Labels["env"] != "test" || h.Facts["os"] == "" || h.Version != "1.2.3" || h.BootID == "" {
		t.Errorf("hello: %+v", h)
	}
	s.mu.Unlock()

	// A changed definition arrives while connected.
	s.assign(nil, shellCheck(6, "echo new", time.Hour))
	s.awaitCondition("result of the new check", func() bool { return len(s.resultsOf(6)) == 1 })
	if self := a.probeCounters(); self.Runs != 6 || self.Forks != 3 || self.Lost != 0 {
		t.Errorf("counters %+v", self)
	}
	if offset, ok := a.ServerOffset(); !ok || offset > 5*time.Second || offset < -5*time.Second {
		t.Errorf("offset %v %v", offset, ok)
	}
	testenv.NoError(t, stop())
	s.awaitCondition("a clean end", func() bool { return s.byeSessions == 1 })
}

// TestChangedFactsAreSentDuringASession changes facts during a session and expects each change once, with labels and
// groups.
func TestChangedFactsAreSentDuringASession(t *testing.T) {
	s := newTestServer(t)
	cfg := testConfig(s, t.TempDir())
	var kernel, resolved atomic.Pointer[string]
	empty, first := "", "6.1"
	kernel.Store(&first)
	resolved.Store(&empty)
	cfg.Machine = ThisMachine()
	cfg.FactsEvery, cfg.Groups = time.Millisecond, []string{"web"}
	cfg.Machine.Facts = func() map[string]string {
		return map[string]string{"os": "linux", "kernel": *kernel.Load(), "fqdn": *resolved.Load()}
	}
	cfg.Machine.Resolve = func(ctx context.Context) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("Resolve has a context without a deadline")
		}
		s.mu.Lock()
		for len(s.hellos) == 0 { // a session does not wait for the resolver
			s.changed.Wait()
		}
		s.mu.Unlock()
		name := "web01.example.com"
		resolved.Store(&name)
	}
	startAgent(t, cfg)
	s.awaitCondition("the name is resolved", func() bool {
		return len(s.hellos) == 2 && s.hellos[0].Facts["fqdn"] == "" && s.hellos[1].Facts["fqdn"] == "web01.example.com"
	})
	second := "6.12"
	kernel.Store(&second)
	s.awaitCondition("the new kernel", func() bool { return len(s.hellos) == 3 })
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.hellos[2]
	if last.Facts["kernel"] != "6.12" || last.Facts["os"] != "linux" || last.Labels["env"] != "test" || len(last.Groups) != 1 || last.Version != "1.2.3" {
		t.Errorf("hello %+v", last)
	}
}

// TestChecksRunAndSpoolWithoutServer stops the server, restarts the agent and expects all results when the
// server is back.
func TestChecksRunAndSpoolWithoutServer(t *testing.T) {
	s := newTestServer(t)
	s.assign(nil, shellCheck(1, "echo $((n+1))", 200*time.Millisecond))
	cfg := testConfig(s, t.TempDir())
	_, stop := startAgent(t, cfg)
	s.awaitCondition("the first results", func() bool { return len(s.resultsOf(1)) >= 2 })
	s.stop()
	testenv.NoError(t, stop())
	// The restarted agent has no server: it runs the stored assignment.
	a, _ := startAgent(t, cfg)
	<-a.ready
	before := a.probeCounters().Unacknowledged
	testenv.Until(t, "results are spooled", func() bool { return a.probeCounters().Unacknowledged >= before+5 })
	s.mu.Lock()
	had := len(s.resultsOf(1))
	s.mu.Unlock()
	s.restart()
	s.awaitCondition("what was spooled", func() bool { return len(s.resultsOf(1)) >= had+5 })
}

// TestRefusedMachineSuspendsItsChecks expects no checks to run while the server refuses the machine as retired or
// unknown.
func TestRefusedMachineSuspendsItsChecks(t *testing.T) {
	s := newTestServer(t)
	s.assign(nil, shellCheck(1, "true", 100*time.Millisecond))
	cfg := testConfig(s, t.TempDir())
	a, stop := startAgent(t, cfg)
	s.awaitCondition("the first result", func() bool { return len(s.resultsOf(1)) >= 1 })
	again := func(gone muster.Retirement) {
		t.Helper()
		testenv.NoError(t, stop())
		s.mu.Lock()
		s.retirement = gone
		s.mu.Unlock()
		a, stop = startAgent(t, cfg)
		<-a.ready
	}
	jobs := func() int { return a.checks.scheduler.Stats().Jobs }
	again(muster.Retirement{Code: "retired", Sentence: "by a test"})
	testenv.Until(t, "nothing is scheduled", func() bool { return jobs() == 0 })
	again(muster.Retirement{Code: "unknown", Sentence: "a restored server"})
	testenv.Until(t, "it runs without a session", func() bool { return a.checks.scheduler.Stats().Started >= 3 })
	again(muster.Retirement{})
	had := len(s.resultsOf(1))
	s.awaitCondition("results again", func() bool { return len(s.resultsOf(1)) > had })

	a.units.suspendChecks("clone")
	if jobs() != 0 {
		t.Errorf("%d jobs", jobs())
	}
	a.units.resumeChecks()
	if jobs() != 1 {
		t.Errorf("%d jobs after the server took it back", jobs())
	}
}

// TestKilledAgentSendsItsSpooledResults kills the agent with SIGKILL, restarts the agent and expects its spooled
// results at the server.
func TestKilledAgentSendsItsSpooledResults(t *testing.T) {
	s := newTestServer(t)
	dir := t.TempDir()
	mark := filepath.Join(t.TempDir(), "runs")
	s.assign(nil, shellCheck(1, "echo x >>"+mark+"; echo run", 100*time.Millisecond), shellCheck(2, "exec sleep 1000", time.Hour))
	startProcess := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "AGENT_UNDER_TEST="+dir, "AGENT_TOKEN="+s.token)
		cmd.Stderr = os.Stderr
		testenv.NoError(t, cmd.Start())
		return cmd
	}
	first := startProcess()
	s.awaitCondition("results", func() bool { return len(s.resultsOf(1)) >= 5 })
	_ = first.Process.Signal(syscall.SIGKILL)
	_ = first.Wait()
	s.mu.Lock()
	had := len(s.resultsOf(1))
	s.mu.Unlock()
	second := startProcess()
	defer func() { _ = second.Process.Kill(); _ = second.Wait() }()
	s.awaitCondition("results of the restarted agent", func() bool { return len(s.resultsOf(1)) >= had+5 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hellos) < 2 || s.hellos[0].Node != s.hellos[len(s.hellos)-1].Node {
		t.Error("the restarted agent has the id of another node")
	}
	data, _ := os.ReadFile(mark)
	if runs := bytes.Count(data, []byte("x")); len(s.resultsOf(1)) > runs {
		t.Errorf("%d results of %d runs", len(s.resultsOf(1)), runs)
	}
}

// TestSecondAgentAndInvalidTokenAreRefused starts a second agent on the same state folder, and expects an error. An
// invalid join token is an error, too.
func TestSecondAgentAndInvalidTokenAreRefused(t *testing.T) {
	s := newTestServer(t)
	cfg := testConfig(s, t.TempDir())
	a, _ := startAgent(t, cfg)
	<-a.ready
	second, _ := New(cfg)
	if err := second.Run(t.Context()); model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "in use by another agent") {
		t.Errorf("second agent: %v", err)
	}
	for _, token := range []string{"", "nonsense"} {
		bad, _ := New(Config{StateDir: t.TempDir(), Token: token})
		if err := bad.Run(t.Context()); err == nil || model.ClassOf(err) == model.Internal {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// TestDamagedAssignmentIsSentAgain damages the stored list of checks (assignment), and expects the server to send the
// whole list again.
func TestDamagedAssignmentIsSentAgain(t *testing.T) {
	s := newTestServer(t)
	s.assign(nil, shellCheck(1, "echo fine", time.Hour))
	cfg := testConfig(s, t.TempDir())
	_, stop := startAgent(t, cfg)
	s.awaitCondition("a result", func() bool { return len(s.resultsOf(1)) == 1 })
	testenv.NoError(t, stop())
	path := filepath.Join(cfg.StateDir, assignmentFile)
	data, err := os.ReadFile(path)
	testenv.NoError(t, err)
	data[len(data)/2] ^= 1
	testenv.NoError(t, os.WriteFile(path, data, 0o600))
	startAgent(t, cfg)
	s.awaitCondition("a result of the restarted agent", func() bool { return len(s.resultsOf(1)) == 2 })
}

// TestLargeAssignmentRunsWithoutItsInvalidCheck sends 10 MB of checks, with one invalid check, and expects all others
// to run.
func TestLargeAssignmentRunsWithoutItsInvalidCheck(t *testing.T) {
	s := newTestServer(t)
	const units, bodyBytes = 45, 230 << 10
	var definitions []*model.CheckDefinition
	total := 0
	for id := model.DefinitionID(1); id <= units; id++ {
		c := shellCheck(id, "true", time.Hour)
		c.Stdin = strings.Repeat("x", bodyBytes)
		definitions = append(definitions, c)
		total += len(c.Stdin)
	}
	bad := shellCheck(units+1, "true", time.Hour)
	bad.Stdin = strings.Repeat("x", wire.MaxBody)
	s.assign(nil, append(definitions, bad)...)
	cfg := testConfig(s, t.TempDir())
	a, stop := startAgent(t, cfg)
	s.awaitCondition("a result of every unit that can be read", func() bool { return len(s.results) >= units })
	s.mu.Lock()
	if n := len(s.resultsOf(bad.ID)); n != 0 || total < 10_000_000 {
		t.Errorf("%d results of the refused unit, %d bytes of bodies", n, total)
	}
	s.mu.Unlock()
	refused := func() []wire.RefusedDefinition {
		a.units.mu.Lock()
		defer a.units.mu.Unlock()
		return a.units.current.Refused
	}
	if got := refused(); len(got) != 1 || got[0].Definition != bad.ID {
		t.Errorf("refused %+v, expected definition %d alone", got, bad.ID)
	}
	testenv.NoError(t, stop())
	s.stop()
	a, _ = startAgent(t, cfg)
	<-a.ready
	if jobs := a.checks.scheduler.Stats().Jobs; jobs != units || len(refused()) != 1 {
		t.Errorf("after a restart without the server: %d jobs, expected %d; refused %+v", jobs, units, refused())
	}
}

// definitionCounter is a test double of a definitionRunner, which counts the assigned definitions and runs
// none.
type definitionCounter struct{ definitions int }

// applyDefinitions stores for the test how many definitions (compiled checks and Templates) an assignment has.
func (p *definitionCounter) applyDefinitions(_ *link.Assignment, definitions []*model.Definition) error {
	p.definitions = len(definitions)
	return nil
}

// suspendDefinitions sets the test double's number of definitions to zero, as if the server suspended all
// definitions.
func (p *definitionCounter) suspendDefinitions() { p.definitions = 0 }

// TestEachKindOfDefinitionRunsInItsDefinitionRunner expects each supported kind of definition to reach its runner, and
// errors for other kinds. The agent tells the server the supported kinds and refuses all others.
func TestEachKindOfDefinitionRunsInItsDefinitionRunner(t *testing.T) {
	a, err := New(Config{StateDir: t.TempDir()})
	testenv.NoError(t, err)
	const toyKind, otherKind model.DefinitionKind = 77, 78
	toy := &definitionCounter{}
	a.units.runners = map[model.DefinitionKind]definitionRunner{toyKind: toy}
	if got := a.units.definitionFeatures(); !slices.Equal(got, []string{wire.DefinitionFeature(toyKind)}) {
		t.Errorf("features %q", got)
	}
	var assignment link.Assignment
	for id, kind := range []model.DefinitionKind{toyKind, otherKind, toyKind} {
		definition, err := a.units.supportedDefinition(model.DefinitionID(id+1), wire.AppendDefinition(nil, (&model.Definition{Unit: 9}).SetBody(kind, []byte("body"))))
		if (err == nil) != (kind == toyKind) {
			t.Fatalf("kind %d: %v", kind, err)
		}
		if err == nil {
			assignment.Definitions = append(assignment.Definitions, definition)
		}
	}
	for step, want := range []int{2, 0, 2} {
		switch step {
		case 0:
			_ = a.units.applyAssignment(&assignment)
		case 1:
			a.units.suspendChecks("retired")
		case 2:
			a.units.resumeChecks()
		}
		if toy.definitions != want {
			t.Errorf("step %d: %d definitions run, expected %d", step, toy.definitions, want)
		}
	}
}

// TestRequestedCheckRunsAtOnce requests a run of a daily check and expects the result immediately. A request for an
// unknown check has no effect.
func TestRequestedCheckRunsAtOnce(t *testing.T) {
	s := newTestServer(t)
	s.assign(nil, shellCheck(1, "echo now", 24*time.Hour))
	a, _ := startAgent(t, testConfig(s, t.TempDir()))
	s.awaitCondition("the first run", func() bool { return len(s.resultsOf(1)) == 1 })
	(*linkEvents)(a).RunNow(nil, &wire.Run{Definition: 1})
	(*linkEvents)(a).RunNow(nil, &wire.Run{Definition: 99}) // no check of this node: the agent logs the request
	s.awaitCondition("the run asked for", func() bool { return len(s.resultsOf(1)) == 2 })
}

// TestShippedAgentStaysSmall expects the size of the binary, and its resident memory with 40 checks, to stay below
// limits.
func TestShippedAgentStaysSmall(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("builds and runs the real binary")
	}
	binary := filepath.Join(t.TempDir(), "muster-agent")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "../../cmd/muster-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil || info.Size() > 15<<20 {
		t.Errorf("the binary has %d bytes (%v)", info.Size(), err)
	}
	s := newTestServer(t)
	var definitions []*model.CheckDefinition
	for id := model.DefinitionID(1); id <= 40; id++ {
		c := shellCheck(id, "echo fine; exit 0", 2*time.Second)
		if id%2 == 0 {
			c.Command, c.Probe = nil, &model.Probe{Name: []string{"disk", "memory", "swap", "load", "processes", "reboot"}[id%6]}
		}
		definitions = append(definitions, c)
	}
	s.assign(nil, definitions...)
	agent := exec.Command(binary, "--state-dir", t.TempDir(), "--log-level", "error")
	agent.Env = append(os.Environ(), "MUSTER_TOKEN="+s.token)
	agent.Stderr = os.Stderr
	testenv.NoError(t, agent.Start())
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	s.awaitCondition("three rounds of results", func() bool { return len(s.results) >= 120 })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", agent.Process.Pid))
	testenv.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kB, _ := strconv.Atoi(strings.Fields(rest)[0])
	t.Logf("binary %.1f MB, resident %.1f MB", float64(info.Size())/1e6, float64(kB)/1000)
	if kB > 25_000 {
		t.Errorf("resident: %d kB", kB)
	}
}

// TestAgentImportsNoServerPackages lists the imports of muster-agent and fails on databases and packages of the
// server.
func TestAgentImportsNoServerPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../cmd/muster-agent").Output()
	testenv.NoError(t, err)
	for dep := range strings.Lines(string(out)) {
		for _, never := range []string{
			"cel.dev/", "modernc.org/", "pgx", "danielgtaylor/huma", "spf13/cobra", "database/sql\n",
			"muster/internal/intent", "muster/internal/plan", "muster/internal/source", "muster/internal/store", "muster/internal/pipeline", "muster/internal/dispatch", "muster/internal/app",
		} {
			if strings.Contains(dep, never) {
				t.Errorf("muster-agent imports %s", dep)
			}
		}
	}
}
