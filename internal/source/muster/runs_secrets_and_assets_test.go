package muster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// nextAnswer waits for the next answer of an ad-hoc run in the test and returns the answer.
func nextAnswer(t *testing.T, r *core.Runs) model.RunAnswer {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		if a, ok := r.Next(); ok {
			return a
		}
		select {
		case <-r.Wake():
		case <-late:
			t.Fatal("no answer")
		}
	}
}

// waitRun waits until the test agent has received n requests for ad-hoc runs, and returns the nth.
func (a *testAgent) waitRun(n int) wire.Run {
	a.wait("the run", func() bool { return len(a.runs) >= n })
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[n-1]
}

// sendRunOutput sends, as the test agent, output of an ad-hoc run to the server.
func (a *testAgent) sendRunOutput(ran wire.RunOutput) {
	a.t.Helper()
	testenv.NoError(a.t, a.SendRunOutput(&ran))
}

// TestRequestedRunIsAnswered requests an ad-hoc run, and expects its caller to get output only from the asked
// agent's session.
func TestRequestedRunIsAnswered(t *testing.T) {
	w := newTestServer(t, nil)
	one, two := w.openAgent(w.addNode(1, 1)), w.openAgent(w.addNode(2, 1))
	runs := w.server.NewRuns()
	defer runs.Close()
	command := &model.Command{Shell: "uptime"}
	for _, node := range []model.NodeID{1001, 1002} {
		testenv.NoError(t, w.server.RequestRun(runs, node, wire.Run{Command: command, TimeoutMs: 5000, MaxOutput: 100}))
	}
	if err := w.server.RequestRun(runs, 4711, wire.Run{Command: command}); model.ClassOf(err) != model.NotFound || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("a node without a session: %v", err)
	}
	first, second := one.waitRun(1), two.waitRun(1)
	if first.Command.Shell != "uptime" || first.TimeoutMs != 5000 || first.MaxOutput != 100 || first.ID == 0 || first.ID == second.ID {
		t.Errorf("asked: %+v and %+v", first, second)
	}
	two.sendRunOutput(wire.RunOutput{ID: first.ID, Last: true, Output: []byte("not mine")}) // answer from another session
	one.sendRunOutput(wire.RunOutput{ID: first.ID, Output: []byte("up ")})
	if a := nextAnswer(t, runs); a.Node != 1001 || string(a.Output) != "up " || a.Last {
		t.Errorf("%+v", a)
	}
	one.sendRunOutput(wire.RunOutput{ID: first.ID, Output: []byte("3 days"), Last: true, Status: model.Warning, DurationMs: 7, Cut: 3})
	if a := nextAnswer(t, runs); string(a.Output) != "3 days" || !a.Last || a.Status != model.Warning || a.Duration != 7*time.Millisecond || a.Cut != 3 {
		t.Errorf("%+v", a)
	}
	two.Close()
	if a := nextAnswer(t, runs); a.Node != 1002 || !a.Last || !strings.Contains(a.EndUnknown, "session ended") {
		t.Errorf("%+v", a)
	}
	if n := testutil.ToFloat64(w.server.metrics.frames[answerUnrequested]); n != 1 {
		t.Errorf("%v answers without a request, want 1", n)
	}
	if runs.Pending() != 0 || w.server.runOutput.Bytes() != 0 {
		t.Errorf("%d runs are open, %d bytes held", runs.Pending(), w.server.runOutput.Bytes())
	}
}

// The server itself refuses ad-hoc runs that the agent has excluded in its Hello.
func TestRestrictedAgentGetsNoRuns(t *testing.T) {
	w := newTestServer(t, nil)
	for i, c := range []struct {
		refuses         string
		check, commands bool
	}{{"run", false, false}, {"changes", true, false}, {"commands", true, true}, {"something of later", true, true}} {
		node := w.addNode(i+1, 1)
		testenv.Value(w.openSession(node, func(_ *link.Config, h *wire.Hello) { h.Restrictions = []string{c.refuses} }))(t)
		runs := w.server.NewRuns()
		defer runs.Close()
		for _, ask := range []struct {
			run  wire.Run
			want bool
		}{{wire.Run{Definition: 1}, c.check}, {wire.Run{Command: &model.Command{Shell: "id"}}, c.commands}} {
			err := w.server.RequestRun(runs, model.NodeID(1001+i), ask.run)
			if (err == nil) != ask.want || err != nil && (model.ClassOf(err) != model.Forbidden || !strings.Contains(err.Error(), "the agent's setting --")) {
				t.Errorf("refuses %s, asked for %+v: %v", c.refuses, ask.run, err)
			}
		}
	}
}

// Pending runs are cancelled when their caller calls Close or Forget.
func TestClosedRunsAreCancelled(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1))
	runs, others := w.server.NewRuns(), w.server.NewRuns()
	defer others.Close()
	for _, r := range []*core.Runs{runs, others} {
		testenv.NoError(t, w.server.RequestRun(r, 1001, wire.Run{Command: &model.Command{Shell: "sleep 9"}, MaxOutput: 1000}))
	}
	mine, theirs := a.waitRun(1), a.waitRun(2)
	a.sendRunOutput(wire.RunOutput{ID: mine.ID, Output: []byte("never fetched")})
	a.sendRunOutput(wire.RunOutput{ID: theirs.ID, Output: []byte("x")})
	nextAnswer(t, others)
	runs.Close()
	if c := a.waitRun(3); !c.Cancel || c.ID != mine.ID {
		t.Errorf("%+v, want a cancel of %x", c, mine.ID)
	}
	a.sendRunOutput(wire.RunOutput{ID: mine.ID, Last: true, Output: []byte("cancelled")})
	others.Forget(1001)
	if c := a.waitRun(4); !c.Cancel || c.ID != theirs.ID {
		t.Errorf("%+v, want a cancel of %x", c, theirs.ID)
	}
	if _, ok := runs.Next(); ok || w.server.runOutput.Bytes() != 0 || others.Pending() != 0 {
		t.Errorf("something is left: %d bytes", w.server.runOutput.Bytes())
	}
}

// The output of runs has a limit per run and in total, even if nobody fetches the output.
func TestRunOutputIsBounded(t *testing.T) {
	settings := testenv.Value(queue.ParseSettings([]string{"run-output=1MiB"}))(t)
	w := newTestServer(t, func(c *Config) { c.Queues = queue.NewRegistry(settings) })
	a := w.openAgent(w.addNode(1, 1))
	runs := w.server.NewRuns()
	defer runs.Close()
	flood := bytes.Repeat([]byte("x"), 100<<10)
	for range 20 {
		a.sendRunOutput(wire.RunOutput{ID: 99, Output: flood}) // output of a run that nobody requested
	}
	testenv.NoError(t, w.server.RequestRun(runs, 1001, wire.Run{Definition: 1, MaxOutput: 64 << 10}))
	id := a.waitRun(1).ID
	for range 20 {
		a.sendRunOutput(wire.RunOutput{ID: id, Output: flood})
	}
	a.sendRunOutput(wire.RunOutput{ID: id, Last: true})
	sum, cut := 0, uint64(0)
	for done := false; !done; {
		got := nextAnswer(t, runs)
		sum, cut, done = sum+len(got.Output), got.Cut, got.Last
	}
	if sum != 64<<10+core.RunOutputSlack || uint64(sum)+cut != 20*uint64(len(flood)) {
		t.Errorf("%d bytes kept, %d cut", sum, cut)
	}
	// Many runs whose output no caller fetches.
	for i := range 40 {
		testenv.NoError(t, w.server.RequestRun(runs, 1001, wire.Run{Definition: 1, MaxOutput: 64 << 10}))
		a.sendRunOutput(wire.RunOutput{ID: a.waitRun(i + 2).ID, Output: flood[:60<<10], Last: true})
	}
	a.waitAnswers(w, 20+21+40)
	if held := w.server.runOutput.Bytes(); held > 1<<20 || held < 900<<10 {
		t.Errorf("%d bytes held", held)
	}
	for range 40 {
		got := nextAnswer(t, runs)
		if uint64(len(got.Output))+got.Cut != 60<<10 || !got.Last {
			t.Errorf("%d bytes, %d cut, done %v", len(got.Output), got.Cut, got.Last)
		}
	}
	err := w.server.RequestRun(runs, 1001, wire.Run{Definition: 1})
	testenv.NoError(t, err)
	for err == nil {
		err = w.server.RequestRun(runs, 1001, wire.Run{Definition: 1})
	}
	if model.ClassOf(err) != model.Limited || runs.Pending() > core.MaxRuns {
		t.Errorf("after %d runs: %v", runs.Pending(), err)
	}
	w.checkOutcomes()
}

// waitAnswers waits until the server has handled n messages about ad-hoc runs. They have output or results.
func (a *testAgent) waitAnswers(w *testServer, n float64) {
	a.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for testutil.ToFloat64(w.server.metrics.frames[runAnswered])+testutil.ToFloat64(w.server.metrics.frames[answerUnrequested]) < n {
		select {
		case <-tick.C:
		case <-deadline:
			a.t.Fatal("answers are not handled")
		}
	}
}

// TestAgentGetsSecretsOfItsAssignmentOnly expects an agent to get only the secrets of its checks. Without a proven
// identity it gets none.
func TestAgentGetsSecretsOfItsAssignmentOnly(t *testing.T) {
	asked, text := make(chan string, 8), &logBuffer{}
	w := newTestServer(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(text, nil))
		c.Secret = func(_ context.Context, namespace, name string) (core.SecretValue, error) {
			asked <- namespace + "/" + name
			if name == "broken" {
				return core.SecretValue{}, errors.New("Vault is sealed")
			}
			return core.SecretValue{Text: "the value of " + name, Lease: time.Minute}, nil
		}
	})
	uid := w.addNode(1, 1)
	w.addNode(2, 2)
	w.plan.setSecrets(1001, model.DefinitionSecret{Env: "A", Name: "default/a"}, model.DefinitionSecret{Env: "B", Name: "shared/broken"}, model.DefinitionSecret{Env: "C", Name: "default/own", AgentFile: "x"})
	w.plan.setSecrets(1002, model.DefinitionSecret{Env: "A", Name: "default/others"})
	a := w.openAgent(uid)
	if len(a.welcome.Features) != 0 {
		t.Errorf("a session without TLS is promised secrets: %q", a.welcome.Features)
	}
	names := []string{"default/a", "default/others", "shared/broken", "default/own"}
	ask := func() {
		testenv.NoError(t, a.SendRequest(&wire.Exchange{ID: 9, SecretsRequest: &wire.SecretsRequest{Names: names}}))
	}
	ask()
	testenv.Until(t, "it is refused", func() bool { return testutil.ToFloat64(w.server.metrics.frames[answerUnrequested]) == 1 })
	w.server.registry.Get(1001).proven.Store(true)
	ask()
	a.wait("the answer", func() bool { return len(a.secrets) == len(names) })
	for i, want := range []wire.SecretValue{
		{Name: "default/a", Value: []byte("the value of a"), LeaseMs: 60000},
		{Name: "default/others", Error: "the node's assignment does not contain the secret"},
		{Name: "shared/broken", Error: "Vault is sealed"},
		{Name: "default/own", Error: "the node's assignment does not contain the secret"}, // the value of this secret is on the node
	} {
		if got := a.secrets[i]; got.Name != want.Name || string(got.Value) != string(want.Value) || got.Error != want.Error || got.LeaseMs != want.LeaseMs {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	close(asked)
	for name := range asked {
		if name != "default/a" && name != "shared/broken" {
			t.Errorf("%s was looked for", name)
		}
	}
	for outcome, want := range map[string]float64{"given": 1, "refused": 2, "failed": 1} {
		if n := testutil.ToFloat64(w.server.metrics.secrets.WithLabelValues(outcome)); n != want {
			t.Errorf("%v %s, want %v", n, outcome, want)
		}
	}
	if n := text.countText("refused a secret"); n != 1 {
		t.Errorf("%d lines in the log about 2 refused secrets, expected one a minute", n)
	}
}
