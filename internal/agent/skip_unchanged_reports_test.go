package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestEqualRunsAreReportedOncePerHeartbeat expects a directive's changed runs to be reported immediately, and
// equal runs once per hour.
func TestEqualRunsAreReportedOncePerHeartbeat(t *testing.T) {
	const minute = uint64(time.Minute / time.Millisecond)
	c := &model.DirectiveDefinition{Definition: model.Definition{ID: 1, Unit: 9}, Interval: 5 * time.Minute, Heartbeat: time.Hour, Grace: 2 * time.Hour}
	changed := *c
	changed.ID = 2
	report := func(codes ...policy.Status) *wire.Report {
		list := policy.NewCodes(len(codes))
		for i, s := range codes {
			list.Set(i, s)
		}
		return &wire.Report{Components: uint32(len(codes)), Codes: list}
	}
	good, bad := report(policy.Compliant, policy.Compliant), report(policy.Compliant, policy.NonCompliant)
	message := *bad
	message.Exceptions = []wire.ReportException{{Position: 1, Message: "line 7"}}
	ended := *bad
	ended.Ended = "the run took longer than 5m"
	enforced := *bad
	enforced.Enforced = true
	repaired := report(policy.Success, policy.Repaired)
	var r reportedRuns
	for _, step := range []struct {
		what   string
		of     *model.DirectiveDefinition
		report *wire.Report
		minute uint64
		want   bool
	}{
		{"first run", c, good, 0, true},
		{"equal run", c, good, 5, false},
		{"equal run before the heartbeat", c, good, 55, false},
		{"the next run would be late", c, good, 56, true},
		{"equal run after the heartbeat", c, good, 61, false},
		{"another code", c, bad, 66, true},
		{"equal run", c, bad, 71, false},
		{"another message", c, &message, 76, true},
		{"equal message", c, &message, 81, false},
		{"a run that ended early", c, &ended, 86, true},
		{"another mode", c, &enforced, 91, true},
		{"the grace period is over", c, &enforced, 120, true},
		{"it was over before", c, &enforced, 125, false},
		{"another definition", &changed, &enforced, 130, true},
		{"a repair", &changed, repaired, 135, true},
		{"the same repair again", &changed, repaired, 140, true},
	} {
		run := *step.report
		run.HeldMs = step.minute * minute
		due, forgets := r.mustReport(step.of, &run, step.minute*minute)
		if due != step.want {
			t.Errorf("minute %d, %s: due %v, want %v", step.minute, step.what, due, step.want)
		}
		if due {
			r.record(step.of, &run, step.minute*minute, forgets)
		}
	}
	full := *c
	full.Heartbeat = 0
	if due, _ := r.mustReport(&full, good, 1); !due {
		t.Error("a directive without a heartbeat reports each run")
	}
	r.removeUnassigned(map[model.UnitID][]model.DefinitionID{8: {2}})
	due, forgets := r.mustReport(&changed, good, 145*minute)
	if !due {
		t.Error("a directive that left the node and came back reports its first run")
	}
	r.removeAll() // a connection between the end of the run and its report
	r.record(&changed, good, 145*minute, forgets)
	if due, _ := r.mustReport(&changed, good, 150*minute); !due {
		t.Error("the first run after a connection is not reported")
	}
}

// TestAgentReportsChangedRuns repeats a policy directive on a real agent, and expects reports of changed runs
// only. It expects a report of the first run, of the run after a change, and of the first run after a
// connection, and none of the equal runs between them.
func TestAgentReportsChangedRuns(t *testing.T) {
	s := newTestServer(t)
	dir := t.TempDir()
	runs, file := filepath.Join(dir, "runs"), filepath.Join(dir, "file")
	testenv.NoError(t, os.WriteFile(file, nil, 0o600))
	component := func(name, method, arguments string, values ...any) model.Component {
		return model.Component{Name: name, Method: method, Arguments: fmt.Appendf(nil, arguments, values...)}
	}
	s.assignDefinitions(nil, (&model.DirectiveDefinition{
		Definition: model.Definition{ID: 1, Unit: model.FirstCheck + 1, Name: "file"}, Interval: 100 * time.Millisecond, Heartbeat: 24 * time.Hour, Timeout: time.Minute,
		Components: []model.Component{component("count", "command", `{"check":"echo run >>%s"}`, runs), component("file", "filePresent", `{"path":%q}`, file)},
	}).ToDefinition())
	_, stop := startAgent(t, testConfig(s, t.TempDir()))
	equalRuns := func() {
		t.Helper()
		before, _ := os.ReadFile(runs)
		testenv.Until(t, "four more runs", func() bool {
			now, _ := os.ReadFile(runs)
			return bytes.Count(now, []byte("run")) >= bytes.Count(before, []byte("run"))+4
		})
	}
	reports := func(what string, want int, last policy.Status) {
		t.Helper()
		s.awaitCondition(what, func() bool { return len(s.reports) >= want })
		equalRuns()
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := policy.Codes(s.reports[len(s.reports)-1].Codes).At(1); len(s.reports) != want || got != last {
			t.Fatalf("%s: %d reports, the last one %s; want %d, %s", what, len(s.reports), got, want, last)
		}
	}
	reports("the first run", 1, policy.Compliant)
	testenv.NoError(t, os.Remove(file))
	reports("a changed run", 2, policy.NonCompliant)
	s.stop()
	equalRuns()
	s.restart()
	reports("the first run after a connection", 3, policy.NonCompliant)
	testenv.NoError(t, stop())
}
