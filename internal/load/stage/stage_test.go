package stage

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// small is a scenario of two seconds against a stage.
func small(t *testing.T, name, more string) *scenario.Scenario {
	t.Helper()
	sc, err := scenario.Parse("small.yaml", fmt.Appendf(nil, `scenario: muster.load/v1
target: stage:%s
seed: 4
agents:
  - {name: web, count: 20, linger: 20ms, checks: [{name: app, count: 4, interval: 1s, status: {critical: 0.2}, changes: 0.3}]}
  - {name: db, count: 5, linger: 20ms, perFrame: 2%s, checks: [{name: disk, count: 2, interval: 1s}]}
phases: [{ramp: 100ms}, {steady: 1500ms}, {drain: 20s}]
objectives: {beyond-p99: 60s, server-cpu: 1us}
`, name, more))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// play runs it; change may put something between the run and the stage.
func play(t *testing.T, sc *scenario.Scenario, change func(*load.Config)) *report.Report {
	t.Helper()
	dir := t.TempDir()
	d, err := Open(t.Context(), sc, dir)
	if err != nil {
		t.Fatal(err)
	}
	var c load.Config
	d.Configure(&c)
	c.Scenario, c.MaxLag = sc, time.Minute
	if change != nil {
		change(&c)
	}
	rep, err := load.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return rep
}

// Every stage takes what a server takes, answers for all of it, and shows what it did.
func TestEachStageAlone(t *testing.T) {
	metrics := map[string]string{"session": "muster_session_frames_total", "journal": "muster_journal_syncs_total", "view": "muster_event_signals_total",
		"spine": "muster_journal_written_bytes_total", "reactions": "muster_dispatch_transitions_total", "planner": "muster_plan_assignments_changed_total"}
	for _, name := range scenario.Stages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more := ""
			if name == "session" || name == "spine" {
				more = ", tls: true"
			}
			rep := play(t, small(t, name, more), nil)
			compared := 90
			if name == "session" {
				compared = 0 // nothing is kept
			}
			b := rep.Balance
			if !rep.OK() || len(rep.Verdict) > 0 || b.Sent < 120 || b.Sent != b.Acknowledged || b.Compared != compared {
				t.Errorf("%v, %+v", rep.Verdict, b)
			}
			if ordered := name == "journal" || name == "view" || name == "spine"; ordered && b.Ordered != compared || !ordered && (b.Ordered > 0 || compared > 0 && len(b.Unordered) != 1) {
				t.Errorf("the order: %+v", b)
			}
			if rep.Stage != name || !slices.Equal(rep.Label, []string{load.StageLabel(name), "not measured against a stage, and not judged: server-cpu",
				"the generator was allowed to be 1m0s late (p99), not 50ms: what is late is in the latencies, and may be its own"}) || len(rep.Goals) != 1 || rep.Inside != nil || rep.Server.Cores > 0 {
				t.Errorf("stage %q, labels %q, goals %+v, server %+v", rep.Stage, rep.Label, rep.Goals, rep.Server)
			}
			if rep.Metrics[metrics[name]] == 0 {
				t.Errorf("no %s among %v", metrics[name], rep.Metrics)
			}
		})
	}
}

// losing acknowledges one batch that it does not hand on.
type losing struct {
	load.Stage
	taken atomic.Int64
}

func (l *losing) Take(ctx context.Context, node model.NodeID, batch []byte, w journal.Waiter, token uint64) error {
	if l.taken.Add(1) == 30 {
		w.Committed(token, journal.Position{}, nil)
		return nil
	}
	return l.Stage.Take(ctx, node, batch, w, token)
}

// holed does not append one entry, and says that it did.
type holed struct {
	appender
	batches atomic.Int64
}

func (h *holed) Append(ctx context.Context, entries ...journal.Entry) error {
	if e := &entries[0]; e.Data[0] == byte(wire.RecordBatch) && h.batches.Add(1) == 30 {
		e.Waiter.Committed(e.Token, journal.Position{}, nil)
		return nil
	}
	return h.appender.Append(ctx, entries...)
}

func TestAStageThatLosesOneAppendIsCaught(t *testing.T) {
	for name, change := range map[string]func(*load.Config){
		"journal":   func(c *load.Config) { e := c.Stage.(*entries); e.to = &holed{appender: e.to} },
		"view":      func(c *load.Config) { e := c.Stage.(*entries); e.to = &holed{appender: e.to} },
		"reactions": func(c *load.Config) { c.Stage = &losing{Stage: c.Stage} },
		"planner":   func(c *load.Config) { c.Stage = &losing{Stage: c.Stage} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rep := play(t, small(t, name, ""), change)
			said := strings.Join(rep.Verdict, "\n")
			if rep.OK() || rep.Balance.Missing > 0 || rep.Balance.Differ == 0 || rep.Balance.Differ > 10 || !strings.Contains(said, "acknowledged and lost") {
				t.Errorf("%q, %+v", said, rep.Balance)
			}
		})
	}
}

// A new definition of a check that no assignment has is found on every node that runs it.
func TestADefinitionThatNoNodeHasIsCaught(t *testing.T) {
	t.Parallel()
	rep := play(t, small(t, "planner", ""), func(c *load.Config) {
		for _, x := range c.Stage.(*edits).checks {
			if x.resource.Metadata.Name == "db-disk-000" {
				x.version++
			}
		}
	})
	said := strings.Join(rep.Verdict, "\n")
	const nodes = 25 // each is changed; changes that wait for the planner are one
	if rep.OK() || rep.Balance.Missing > 0 || rep.Balance.Differ != 5 || rep.Metrics["muster_plan_assignments_changed_total"] < nodes {
		t.Errorf("%q, %+v, %v", said, rep.Balance, rep.Metrics)
	}
}

func TestWhatAStageCannotPlay(t *testing.T) {
	for _, c := range []struct{ stage, more, want string }{
		{"journal", ", tls: true", "stage journal alone has no tls (mutual TLS)"},
		{"spine", ", churn: {reconnects: 1%/min}", "stage spine alone has no churn (reconnects"},
	} {
		_, err := Open(t.Context(), small(t, c.stage, c.more), t.TempDir())
		if model.ClassOf(err) != model.Unsupported || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s: %v", c.stage, c.more, err)
		}
	}
	sc := small(t, "view", "")
	sc.Faults = []scenario.Fault{{Cut: &scenario.Pick{}}}
	if err := Plays(sc); model.ClassOf(err) != model.Unsupported || !strings.Contains(err.Error(), "no faults") {
		t.Error(err)
	}
	sc.Faults, sc.Operators.Lists = nil, 1
	if err := Plays(sc); model.ClassOf(err) != model.Unsupported || !strings.Contains(err.Error(), "no operators") {
		t.Error(err)
	}
	sc.Operators, sc.Intent = scenario.Operators{}, []scenario.Change{{}}
	if err := Plays(sc); model.ClassOf(err) != model.Unsupported || !strings.Contains(err.Error(), "no intent") {
		t.Error(err)
	}
}

// Shipped scenarios whose target is a stage are of those that it plays.
func TestShippedStages(t *testing.T) {
	found := 0
	for _, name := range scenario.Names() {
		sc, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := sc.Stage(); !ok {
			continue
		}
		if found++; Plays(sc) != nil {
			t.Error(Plays(sc))
		}
	}
	if found == 0 {
		t.Error("none is shipped")
	}
}

// A stage that does not exist is answered with those that do.
func TestNoSuchStage(t *testing.T) {
	_, err := scenario.Parse("x.yaml", []byte("scenario: muster.load/v1\ntarget: stage:api\nagents: [{name: a, count: 1}]\nphases: [{steady: 1m}]\n"))
	if err == nil || !strings.Contains(err.Error(), "session, journal, view, spine, reactions, planner") {
		t.Error(err)
	}
}
