//go:build linux

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// faultScenario lets checks fail, stops machines and kills the server.
const faultScenario = `
scenario: muster.load/v1
name: troubles
agents:
  - name: web
    count: 12
    checks: [{name: http, count: 2, interval: 1s}]
  - name: db
    count: 6
    checks: [{name: mysql, interval: 1s, status: {critical: 0.3}, changes: 0.3}]
  - name: edge
    count: 5
    keepalive: {interval: 2s, timeout: 3s}
    checks: [{name: ping, interval: 1s}]
phases:
  - ramp: 1s
  - steady: 17s
  - drain: 5s
faults:
  - {at: 6s, for: 8500ms, stop: {class: edge, count: 3}}
  - {at: 2s, for: 3s, fail: {class: web, check: http-001, count: 5}}
  - {at: 3s, for: 3s, fail: {class: db, check: mysql, share: 0.5, status: warning}}
  - {at: 12s, for: 3s, fail: {class: web, check: http-000, count: 4, status: unknown}}
  - {at: 13s, server: kill}
`

// TestFaultsAlertExactlyOnce injects failures of checks, machines and the server, and expects each alert
// exactly once.
func TestFaultsAlertExactlyOnce(t *testing.T) {
	skipIfShort(t, "short: half a minute of faults")
	t.Parallel()
	sc := testenv.Value(scenario.Parse("troubles.yaml", []byte(faultScenario)))(t)
	s := startMeasuredServer(t, t.TempDir(), sc)
	defer s.Stop()
	rep, err := load.Run(t.Context(), load.Config{Options: play.Options{Server: s.Plain, Scenario: sc, Control: s, API: s.API},
		Subject: load.Subject{AdminURL: s.Admin, Before: play.HTTPView(s.Admin + "/debug/states")}, MaxLag: time.Minute})
	testenv.NoError(t, err)
	for _, f := range rep.Faults {
		if f.Missing+f.Extra > 0 {
			logServerState(t, s.API, f.Example)
		}
	}
	require(t, rep.OK() && len(rep.Faults) == 5, "%s", strings.Join(rep.Verdict, "\n"))
	for i, f := range rep.Faults {
		t.Logf("%+v", f)
		if want := []int{6, 10, f.Alerts, 8, 0}[i]; f.Alerts != want || f.Missing+f.Extra > 0 || i != 2 && want > 0 && (f.Detected.Max <= 0 || f.Cleared.Max <= 0) {
			t.Errorf("%+v, want %d alerts", f, want)
		}
	}
}

// startMeasuredServer starts the server that a load run measures. The server has the nodes and checks of a
// scenario. The caller stops it.
func startMeasuredServer(t *testing.T, dir string, sc *scenario.Scenario) *subject.Subject {
	t.Helper()
	return testenv.Value(subject.Start(t.Context(), subject.Options{Binary: harness.Binary(), Dir: dir, Flags: []string{"--journal-reserve", "1MiB"},
		Prepare: func(ctx context.Context, service *intent.Service) error {
			return simulated.Prepare(ctx, service, sc)
		}}))(t)
}

// logServerState logs the server's records of an event and of its notifications. So a test shows where an alert
// was lost.
func logServerState(t *testing.T, api *client.Client, example string) {
	t.Helper()
	name, _, _ := strings.Cut(example, ": ")
	node, check, _ := strings.Cut(name, "/")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	t.Logf("what the server has of %s (%s), at %s:", name, example, time.Now().UTC().Format(clock))
	entries, err := api.Events.History(ctx, simulated.Namespace, node, check, 50)
	if err != nil {
		t.Logf("  history: %v", err)
	}
	for _, e := range entries.Items {
		t.Logf("  %s %s %s", e.At.UTC().Format(clock), e.Kind, e.StatusName)
	}
	problems, err := api.Problems.List(ctx, simulated.Namespace, node, check, false, 50, "")
	if err != nil {
		t.Logf("  problems: %v", err)
	}
	for _, p := range problems.Items {
		t.Logf("  problem %s opened %s, closed %s", p.ID, p.Opened.UTC().Format(clock), p.Closed.UTC().Format(clock))
		told, err := api.Problems.Deliveries(ctx, p.ID)
		if err != nil {
			t.Logf("    messages: %v", err)
		}
		for _, d := range told.Items {
			t.Logf("    %s to %s: %s after %d attempts, made %s, next %s, ended %s %s", d.Kind, d.Handler, d.State, d.Attempts,
				d.Created.UTC().Format(clock), d.NextAt.UTC().Format(clock), d.Ended.UTC().Format(clock), d.LastError)
		}
	}
}

// clock is the format of times in the log.
const clock = "15:04:05.000"

// No result is lost in a load run with many failures of machines and server. No result is lost.
func TestFaultsLoseNoResult(t *testing.T) {
	t.Parallel()
	sec := func(s float64) model.Duration { return model.Duration(s * float64(time.Second)) }
	sc := &scenario.Scenario{Name: "rough", Seed: 3,
		Agents: []scenario.Class{
			{Name: "web", Count: 20, Linger: sec(0.1), Checks: []scenario.Check{{Name: "disk", Interval: sec(1), Output: scenario.Output{Like: "disk"}, Status: map[string]float64{"CRITICAL": 0.1}, Changes: 0.05}},
				Churn: scenario.Churn{Reconnects: "60/min", Restarts: "60/min", Renames: "60/min", Offline: "60/min", OfflineFor: sec(1)}},
			{Name: "db", Count: 10, TLS: true, Linger: sec(0.1), Checks: []scenario.Check{{Name: "query", Count: 3, Interval: sec(0.5)}}},
		},
		Phases: []scenario.Phase{{Ramp: sec(1)}, {Steady: sec(6), Warmup: sec(1)}, {Name: "more", Steady: sec(6), Rate: 1.5}, {Drain: sec(60)}},
		Faults: []scenario.Fault{
			{At: sec(0.5), For: sec(2), Stop: &scenario.Pick{Class: "db", Count: 3}},
			{At: sec(1), For: sec(2), Wrong: &scenario.Pick{Class: "web", Count: 5}},
			{At: sec(2), For: sec(0.5), Server: "stop"},
			{At: sec(4), Server: "kill"},
			{At: sec(8), Cut: &scenario.Pick{}},
			{At: sec(9), Stop: &scenario.Pick{Class: "web", Count: 2}},
		},
		Objectives: map[string]scenario.Limit{"rate": "10", "server-cpu": "1s"}, // the server is killed in between: the test only needs the measurement
	}
	s := startMeasuredServer(t, t.TempDir(), sc)
	defer s.Stop()
	authority := testenv.Value(s.Authority())(t)
	certificates := testenv.Value(simulated.Certificates(authority))(t)
	rep, err := load.Run(t.Context(), load.Config{Options: play.Options{Scenario: sc, Server: s.Plain, ServerTLS: s.TLS, TLS: certificates, Control: s, API: s.API}, MaxLag: time.Hour,
		Subject: load.Subject{AdminURL: s.Admin, ServerPID: s.PID, Before: play.HTTPView(s.Admin + "/debug/states")}})
	testenv.NoError(t, err)
	require(t, rep.OK() && rep.Balance.Compared == 20+30 && rep.Balance.Sent != 0,
		"%s\n%+v", strings.Join(rep.Verdict, "\n"), rep.Balance)
	silent := rep.Silent
	assert(t, silent != nil && silent.Machines == 20+10 && silent.Behind <= 0, "silence of machines was not judged: %+v", silent)
	assert(t, len(rep.Faults) == 6 && rep.Faults[0].Back > 0 && rep.Balance.Refused != 0 && len(rep.Outages) != 0,
		"faults %+v, outages %+v, %d refused", rep.Faults, rep.Outages, rep.Balance.Refused)
	assert(t, len(rep.Phases) == 4 && rep.Phases[2].Name == "more" && rep.Phases[2].Server.RSS != 0, "phases %+v", rep.Phases)
	inside := 0
	for _, x := range rep.Samples {
		if x.Commits > 0 && x.Heap > 0 && x.Goroutines > 0 && x.CommitMs > 0 && x.Latency != nil && len(x.Queues) > 0 {
			inside++
		}
	}
	assert(t, inside >= 3, "%d of %d samples say what the server is doing", inside, len(rep.Samples))
	if rep.Goroutines < 1 { // an upper bound would depend on parallel tests
		t.Errorf("%.1f goroutines per agent", rep.Goroutines)
	}
	for _, o := range rep.Outages {
		assert(t, o.Lost >= 5, "machines that come and go by themselves are no outage: %+v, %v", o, rep.Losses)
	}
	t.Logf("\n%s\nlosses %v\nfailures %v", rep.Text(), rep.Losses, rep.Failures)
}

// TestFaultyServersFailTheRun sends load to servers with deliberate bugs, and expects exit code 21 for each
// server. A faulty server loses, repeats, swaps or changes one result; the report names the wrong event state.
// The same build without a fault passes.
func TestFaultyServersFailTheRun(t *testing.T) {
	skipIfShort(t, "short: another server is built")
	t.Parallel()
	server := buildFaultyServer(t)
	for lie, want := range map[string]string{
		"":      "",
		"drop":  "1 acknowledged and lost",
		"twice": "1 applied more often than acknowledged",
		"again": "1 with other results or in another order",
		"order": "1 with other results or in another order",
		"words": "1 with another status or output",
	} {
		t.Run("lie="+lie, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "report")
			ran := harness.Run(t, []string{"TMPDIR=" + t.TempDir(), "LIE=" + lie}, "load", "run", tinyScenario(t, ""), "--server-binary", server,
				"--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
			rep := readReport(t, out)
			if lie == "" {
				assert(t, ran.Code == 0 && rep.Balance.OK() && rep.Balance.Compared == 8 && rep.Balance.Ordered == 8,
					"no lie: code %d, %+v\n%s%s", ran.Code, rep.Balance, ran.Out, ran.Errors)
				return
			}
			b := rep.Balance
			assert(t, ran.Code == 21 && !b.OK() && b.Missing == 0 && b.Compared == 8 && b.Differ == 1 && b.Imbalances == 1,
				"code %d, want 21; ledger %+v\n%s%s", ran.Code, b, ran.Out, ran.Errors)
			expectTexts(t, ran.Errors, "1 of 8 event states differ from the ledger: "+want, " check ", " number ")
		})
	}
}

// buildFaultyServer builds a server with a deliberate fault, which a test can switch on.
func buildFaultyServer(t *testing.T) string {
	t.Helper()
	compiler := testenv.Program(t, "go", "golang-go", "/usr/local/go/bin")
	dir, event := t.TempDir(), filepath.Join(harness.Root(), "internal", "pipeline", "event")
	const at = "\ts.countResult(from.Stream.Stream, from.Number)\n"
	apply, text := "", ""
	for _, path := range testenv.Value(filepath.Glob(filepath.Join(event, "*.go")))(t) {
		if source := string(readFile(t, path)); strings.Contains(source, at) && strings.Contains(source, "r *wire.Result") {
			require(t, apply == "" && strings.Count(source, at) == 1, "package event has several places for the lie in results, which is before\n%s", at)
			apply, text = path, source
		}
	}
	require(t, apply != "", "package event has no place for the lie, which is before\n%s", at)
	lying := filepath.Join(dir, "lying.go")
	writeFile(t, lying, strings.Replace(text, at, "\tif lie(s, r, from) {\n\t\treturn shard.Applied\n\t}\n"+at, 1))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		apply: lying, filepath.Join(event, "lie.go"): filepath.Join(harness.Root(), "test", "testdata", "liar", "lie.go.txt"),
	}})
	testenv.NoError(t, err)
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "muster")
	writeFile(t, file, overlay)
	build := exec.CommandContext(t.Context(), compiler, "build", "-overlay", file, "-o", binary, "./cmd/muster")
	build.Dir = harness.Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require(t, err == nil, "build the server that lies: %v\n%s", err, out)
	return binary
}

// TestMeasuredServerLeavesNoFileOrProcess starts and stops a load run's server, and expects no remaining file
// or process.
func TestMeasuredServerLeavesNoFileOrProcess(t *testing.T) {
	t.Parallel()
	sc := &scenario.Scenario{Name: "tiny", Agents: []scenario.Class{{Name: "web", Count: 3, Checks: []scenario.Check{{Name: "ping", Count: 2, Interval: model.Duration(time.Second)}}}}}
	base := t.TempDir()
	s := startMeasuredServer(t, base, sc)
	defer s.Stop()
	nodes, err := s.API.Nodes.States(t.Context(), v1.NodeFilter{Namespace: simulated.Namespace, Group: "web", Limit: 10})
	require(t, err == nil && len(nodes.Items) == 3, "%d nodes in the class's group, %v", len(nodes.Items), err)
	if _, err := s.Authority(); err != nil {
		t.Error(err)
	}
	e := s.Environment(t.Context())
	assert(t, e.Server["version"] != "" && e.Server["flags"] == "--journal-reserve 1MiB" && e.Fsync.Max > 0, "environment %+v", e)
	profiles := filepath.Join(base, "profiles")
	files, err := s.Profile(t.Context(), profiles, "steady", 1)
	assert(t, err == nil && len(files) == 7, "profiles %v, %v", files, err)
	for name := range files {
		data, err := os.ReadFile(filepath.Join(base, name))
		if gzip := bytes.HasPrefix(data, []byte{0x1f, 0x8b}); err != nil || gzip != (filepath.Ext(name) == ".pprof") || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}

	first := s.PID()
	for i, again := range []func(context.Context) error{s.Kill, s.Restart} {
		if err := again(t.Context()); err != nil || s.PID() == first || s.PID() == 0 {
			t.Fatalf("%d: process %d, before %d: %v", i, s.PID(), first, err)
		}
		first = s.PID()
	}
	if err := errors.Join(s.Pause(), s.Continue()); err != nil {
		t.Error(err)
	}
	if err := s.Pause(); err != nil { // Stop also ends a paused server
		t.Error(err)
	}
	s.Stop()
	err = syscall.Kill(first, 0)
	assert(t, errors.Is(err, syscall.ESRCH), "process %d: %v", first, err)
	if _, err := os.Stat(s.Data); !errors.Is(err, fs.ErrNotExist) || s.PID() != 0 {
		t.Errorf("the data folder is still there (%v), process %d", err, s.PID())
	}
	err = s.Kill(t.Context())
	assert(t, err != nil, "Kill started the server after Stop")
}

// TestFailedServerStartReportsReason starts a load run with a server that cannot start, and expects the reason in the
// error.
func TestFailedServerStartReportsReason(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	s, err := subject.Start(t.Context(), subject.Options{Binary: harness.Binary(), Dir: base, Flags: []string{"--max-frame", "1"}})
	assert(t, s == nil && model.ClassOf(err) == model.Unavailable && bytes.Contains([]byte(err.Error()), []byte("max-frame")),
		"got %v", err)
	left, _ := os.ReadDir(base)
	assert(t, len(left) == 0, "%v is left", left)
}
