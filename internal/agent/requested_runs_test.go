package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// newRequestTest returns an agent, not connected to any server, for tests of requested runs. The test calls the agent
// with its requests directly.
func newRequestTest(t *testing.T, change func(*Config)) (*Agent, context.CancelCauseFunc) {
	t.Helper()
	cfg := Config{StateDir: t.TempDir(), Name: "web01"}
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	testenv.NoError(t, err)
	ctx, stop := context.WithCancelCause(context.Background())
	a.facts.measureFacts(&a.cfg.Machine) // as Run does first
	a.requests.acceptRequests(ctx)
	t.Cleanup(func() { stop(nil); a.requests.stopRuns() })
	return a, stop
}

// shellCommand returns a command that runs a shell line.
func shellCommand(text string) *model.Command { return &model.Command{Shell: text} }

// collectOutputs waits for the given number of runs to end, and returns their outputs by run id.
func collectOutputs(t *testing.T, a *Agent, runs int) map[uint64]wire.RunOutput {
	t.Helper()
	all := map[uint64]wire.RunOutput{}
	late := time.After(time.Minute)
	for done := 0; done < runs; {
		ran, ok := a.requests.Next(flushBytes)
		if !ok {
			select {
			case <-a.requests.Ready():
			case <-late:
				t.Fatalf("%d of %d runs are done: %+v", done, runs, all)
			}
			continue
		}
		if !utf8.Valid(ran.Output) {
			t.Errorf("a piece that is no text: %q", ran.Output)
		}
		ran.Output = append(all[ran.ID].Output, ran.Output...)
		all[ran.ID] = ran
		if ran.Last {
			done++
		}
	}
	return all
}

// TestRequestedCommandReturnsItsOutputAndStatus requests commands and expects their output, and the status of their
// exit code.
func TestRequestedCommandReturnsItsOutputAndStatus(t *testing.T) {
	a, _ := newRequestTest(t, nil)
	for i, c := range []struct {
		run    wire.Run
		want   wire.RunOutput // without Output
		output string
	}{
		{wire.Run{Command: shellCommand("echo fine")}, wire.RunOutput{}, "fine\n"},
		{wire.Run{Command: shellCommand("echo half; exit 2")}, wire.RunOutput{Status: model.Critical}, "half\n"},
		{wire.Run{Command: shellCommand("printf half; exit 42")}, wire.RunOutput{Status: model.Unknown}, "half\nexit code 42"},
		{wire.Run{Command: shellCommand("true")}, wire.RunOutput{}, "(no output)"},
		{wire.Run{Command: &model.Command{Argv: []string{"echo", "a;b"}}}, wire.RunOutput{}, "a;b\n"},
		{wire.Run{Command: shellCommand("echo began; sleep 60"), TimeoutMs: 1000}, wire.RunOutput{Status: model.Unknown}, "began\ntimed out after 1s"},
		{wire.Run{Command: shellCommand("yes | head -c 100000"), MaxOutput: 10}, wire.RunOutput{Cut: 99990}, "y\ny\ny\ny\ny\n"},
		{wire.Run{Command: shellCommand("printf '\\303'; sleep 0.3; printf '\\244'")}, wire.RunOutput{}, "ä"},
		{wire.Run{Definition: 5}, wire.RunOutput{Refused: "not assigned"}, ""},
	} {
		c.run.ID = uint64(i + 1)
		a.requests.handleRequest(&c.run)
		got := collectOutputs(t, a, 1)[c.run.ID]
		if string(got.Output) != c.output || got.Status != c.want.Status || got.Cut != c.want.Cut || (got.Refused == "") != (c.want.Refused == "") {
			t.Errorf("%+v: %q %+v, want %q", c.run, got.Output, got, c.output)
		}
	}
	if n := len(a.requests.runsByID); n != 0 {
		t.Errorf("%d runs are still known", n)
	}
}

// TestCommandOutputIsStreamed expects the output of a requested command to arrive while the command runs.
func TestCommandOutputIsStreamed(t *testing.T) {
	a, _ := newRequestTest(t, nil)
	gate := filepath.Join(t.TempDir(), "gate")
	a.requests.handleRequest(&wire.Run{ID: 1, Command: shellCommand("echo began; while ! [ -e " + gate + " ]; do sleep 0.05; done; echo ended")})
	<-a.requests.Ready()
	if ran, ok := a.requests.Next(1000); !ok || ran.Last || string(ran.Output) != "began\n" {
		t.Fatalf("while it runs: %+v", ran)
	}
	testenv.NoError(t, os.WriteFile(gate, nil, 0o600))
	if got := collectOutputs(t, a, 1)[1]; string(got.Output) != "ended\n" || got.Status != model.OK {
		t.Errorf("at the end: %+v", got)
	}
}

// TestRequestedCommandEndsWithItsCause ends commands by timeout, cancellation and end of session, and expects that
// cause in each answer. No process may be left.
func TestRequestedCommandEndsWithItsCause(t *testing.T) {
	if _, err := os.Stat("/proc"); err != nil {
		testenv.Skip(t, "no /proc to look for processes in", "")
	}
	dir := t.TempDir()
	sleeps := func(id uint64) *wire.Run {
		return &wire.Run{ID: id, Command: shellCommand(fmt.Sprintf("echo began; sh -c 'sleep 600; : %s' & wait", dir))}
	}
	began := func(t *testing.T, a *Agent) {
		t.Helper()
		testenv.Until(t, "the command began", func() bool { ran, ok := a.requests.Next(1000); return ok && string(ran.Output) == "began\n" })
	}
	gone := func(t *testing.T) {
		t.Helper()
		testenv.Until(t, "its processes are gone", func() bool { return len(processesWithArgument(dir)) == 0 })
	}
	t.Run("by a cancel", func(t *testing.T) {
		a, _ := newRequestTest(t, nil)
		a.requests.handleRequest(sleeps(1))
		began(t, a)
		a.requests.handleRequest(&wire.Run{ID: 2, Cancel: true}) // of nobody
		a.requests.handleRequest(&wire.Run{ID: 1, Cancel: true})
		if got := collectOutputs(t, a, 1)[1]; !strings.Contains(string(got.Output), "cancelled") {
			t.Errorf("%q", got.Output)
		}
		gone(t)
	})
	t.Run("by the end of the session", func(t *testing.T) {
		a, _ := newRequestTest(t, nil)
		a.requests.handleRequest(sleeps(1))
		began(t, a)
		(*linkEvents)(a).Disconnected("server", nil)
		gone(t)
		if ran, ok := a.requests.Next(1000); ok {
			t.Errorf("the next session hears of it: %+v", ran)
		}
	})
	t.Run("by the end of the agent", func(t *testing.T) {
		a, stop := newRequestTest(t, nil)
		a.requests.handleRequest(sleeps(1))
		began(t, a)
		stop(nil)
		a.requests.stopRuns()
		if got := collectOutputs(t, a, 1)[1]; !strings.Contains(string(got.Output), "the agent stops") {
			t.Errorf("%q", got.Output)
		}
		gone(t)
		a.requests.handleRequest(sleeps(2)) // no more
		if len(a.requests.runsByID) != 0 {
			t.Error("a command starts after stopRuns")
		}
	})
}

// processesWithArgument returns the ids of processes with the given folder in their command line.
func processesWithArgument(dir string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), dir) {
			pids = append(pids, f)
		}
	}
	return pids
}

// TestRequestedCommandsAreLimited requests too many commands at the same time, and expects the agent to refuse the
// excess. One limit is for running commands, one for waiting commands.
func TestRequestedCommandsAreLimited(t *testing.T) {
	a, _ := newRequestTest(t, nil)
	for id := uint64(1); id <= maxCommands+1; id++ {
		a.requests.handleRequest(&wire.Run{ID: id, Command: shellCommand("sleep 600")})
	}
	if got := collectOutputs(t, a, 1)[maxCommands+1]; got.Refused == "" {
		t.Errorf("%+v", got)
	}
	for id := uint64(1000); id < 1000+2*maxRequests; id++ { // refusals that nobody fetches are bounded too
		a.requests.handleRequest(&wire.Run{ID: id, Command: shellCommand("true")})
	}
	if n := len(a.requests.runsByID); n > maxRequests {
		t.Errorf("%d refusals wait for the link, more than the limit", n)
	}
}

// TestRefusedRunsReturnTheReason requests runs that the agent's settings forbid, and expects the reason in the answer.
func TestRefusedRunsReturnTheReason(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Config)
		setting string
		refuses string
	}{
		{"no runs", func(c *Config) { c.Commands.NoRun = true }, "--no-run", "run"},
		{"audit only", func(c *Config) { c.Commands.AuditOnly = true }, "--audit-only", "changes"},
		{"a list", func(c *Config) { c.Commands.Allow = []string{"true"} }, "--allow-commands", "commands"},
	} {
		a, _ := newRequestTest(t, c.change)
		mark := filepath.Join(t.TempDir(), "ran")
		a.requests.handleRequest(&wire.Run{ID: 1, Command: shellCommand("touch " + mark)})
		if got := collectOutputs(t, a, 1)[1]; !strings.Contains(got.Refused, c.setting) || len(got.Output) > 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: it ran", c.name)
		}
		a.facts.measureFacts(&a.cfg.Machine) // as Run does at its start
		if got := a.composeHello().Restrictions; len(got) != 1 || got[0] != c.refuses {
			t.Errorf("%s: Hello refuses %v", c.name, got)
		}
	}
	if _, err := New(Config{StateDir: t.TempDir(), Commands: Commands{Allow: []string{"["}}}); model.ClassOf(err) != model.Invalid {
		t.Errorf("a list that is none: %v", err)
	}
}

// TestRequestedCheckReturnsItsResult requests one check three times, cancels one request, and expects two results. The
// other requests get the result of the check.
func TestRequestedCheckReturnsItsResult(t *testing.T) {
	a, _ := newRequestTest(t, nil)
	k := &a.requests
	for id := uint64(1); id <= 2; id++ {
		k.runsByID[id] = &requestedRun{id: id, unit: 7, outputLeft: 100}
	}
	hear := k.outputReceiver(7)
	k.runsByID[3] = &requestedRun{id: 3, unit: 7, outputLeft: 100}
	hear([]byte("half"))
	k.handleRequest(&wire.Run{ID: 2, Cancel: true})
	k.finishRunsOfUnit(7, run.Result{Status: model.Warning, Output: []byte("timed out\nhalf"), Note: "timed out"})
	got := collectOutputs(t, a, 2)
	if string(got[1].Output) != "half\ntimed out" || string(got[3].Output) != "timed out\nhalf" || got[1].Status != model.Warning {
		t.Errorf("%+v", got)
	}
	if k.outputReceiver(7) != nil {
		t.Error("a cancelled request still receives output")
	}
}

// TestOutputGathersBeforeItIsSent writes small pieces of output, and expects the agent to send one combined message.
// The message is sent after a delay or when it is long enough.
func TestOutputGathersBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newRequestTest(t, nil)
		x := &requestedRun{id: 1, outputLeft: 1 << 20}
		a.requests.runsByID[1] = x
		for range 10 {
			a.requests.addOutput(x, []byte("x"))
			time.Sleep(flushAfter / 20)
		}
		if ran, ok := a.requests.Next(100); ok {
			t.Errorf("it leaves at once: %+v", ran)
		}
		<-a.requests.Ready()
		if ran, ok := a.requests.Next(100); !ok || string(ran.Output) != "xxxxxxxxxx" {
			t.Errorf("%+v", ran)
		}
		a.requests.addOutput(x, make([]byte, flushBytes))
		if ran, ok := a.requests.Next(100); !ok || len(ran.Output) != 100 {
			t.Errorf("much does not leave at once: %d", len(ran.Output))
		}
		time.Sleep(flushAfter)
	})
}
