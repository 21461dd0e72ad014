package compliance

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testDefinition returns a test directive with three components. The id 6 is an edit of 5, and 7 is another directive.
func testDefinition(id model.DefinitionID) *model.Definition {
	c := &model.DirectiveDefinition{
		Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "sshd"}, Severity: model.High, Interval: time.Minute, Route: "night",
		Components: []model.Component{{Name: "root login"}, {Name: "port"}, {Name: "service"}},
	}
	switch id {
	case 6:
		c.Components = c.Components[:2]
	case 7:
		c.Unit, c.Name, c.Severity = 1001, "motd", model.SeverityWarning
	case 8:
		c.Grace = time.Hour
	case 9:
		c.Blocks = []model.Block{{Name: "off", First: 0, Count: 1, Reporting: model.ReportDisabled}, {Name: "worst", First: 1, Count: 2, Reporting: model.ReportWorstSum}}
	case 5:
	default:
		return nil
	}
	return c.ToDefinition()
}

// testView has a compliance view and an event view that apply the same journal commits, for tests. It also has
// the commits that the views have applied.
type testView struct {
	*View
	events      *event.View
	transitions []event.Transition
	number      uint64
	commits     []journal.Commit
}

// newTestView returns an empty compliance view and event view for tests.
func newTestView() *testView {
	v := &testView{}
	v.events = event.New(shard.New(shard.Options{Definitions: testDefinition}), event.Options{Emit: func(list []event.Transition) { v.transitions = append(v.transitions, list...) }})
	v.View = New(v.events.Shard, nil)
	return v
}

// now returns the time of the last commit that the test has applied.
func (v *testView) now() time.Time { return time.Unix(1e9, int64(v.number)*int64(time.Minute)) }

// apply applies one journal entry for partition 7 as a commit of its own.
func (v *testView) apply(t testing.TB, record []byte) {
	t.Helper()
	v.number++
	c := &journaltest.Commit{At: journal.Position{Log: 1, Number: v.number}, Listened: time.Duration(v.number) * time.Minute, Time: v.now().UnixNano()}
	c.AddEntry(7, record)
	if v.commits = append(v.commits, c); v.events.Apply(c) != nil {
		t.Fatal("the commit was not applied")
	}
}

// report applies a directive report of node 7 that is as old as the test says.
func (v *testView) report(t testing.TB, definition model.DefinitionID, lane wire.Lane, ago time.Duration, r wire.Report) {
	t.Helper()
	const now = 10_000_000
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9, Lane: lane}, First: v.number + 1, NowMs: now, Signals: []wire.Signal{{
		Kind: wire.SignalReport, Definition: definition, AtMs: uint64(now - ago.Milliseconds()), Body: wire.AppendReport(nil, &r),
	}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		t.Fatal(err)
	}
	v.apply(t, append(wire.AppendBatchRecord(nil, 7), body...))
}

// report returns a directive report whose components have the given statuses.
func report(statuses ...policy.Status) wire.Report {
	codes := policy.NewCodes(len(statuses))
	for i, s := range statuses {
		codes.Set(i, s)
	}
	return wire.Report{Components: uint32(len(statuses)), Codes: codes, DurationMs: 3}
}

// lastRunsText formats the last run of each directive on node 7 as text.
func (v *testView) lastRunsText() string {
	var parts []string
	for _, r := range v.Runs(7) {
		text := fmt.Sprintf("%d:", r.Definition)
		for i := range r.Components {
			text += " " + r.Codes.At(i).String()
		}
		parts = append(parts, text+r.EarlyEndReason())
	}
	return strings.Join(parts, "; ")
}

// TestWaivedComponentIsNoProblem declares a waiver for a component, and expects no problem until the waiver ends. An
// open problem of the component closes, and opens again after the waiver.
func TestWaivedComponentIsNoProblem(t *testing.T) {
	v := newTestView()
	source := model.DirectiveSource(1000)
	v.report(t, 5, wire.Live, 0, report(policy.Waived, policy.Compliant, policy.NotApplicable))
	if _, ok := v.events.Get(7, source); ok || v.lastRunsText() != "5: waived compliant not applicable" {
		t.Errorf("a waived component made an event, or %s", v.lastRunsText())
	}
	v.report(t, 5, wire.Live, 0, report(policy.NonCompliant, policy.Compliant, policy.Waived))
	if s, ok := v.events.Get(7, source); !ok || s.Problem == nil || s.Output != "1 of 3 components compliant, 1 waived; root login: non-compliant" {
		t.Errorf("event %+v", s)
	}
	v.report(t, 5, wire.Live, 0, report(policy.Waived, policy.Compliant, policy.Waived))
	if s, _ := v.events.Get(7, source); s.Status != model.OK || s.Problem != nil {
		t.Errorf("a waiver left the problem open: %+v", s)
	}
	v.report(t, 5, wire.Live, 0, report(policy.NonCompliant, policy.Compliant, policy.Compliant))
	if s, _ := v.events.Get(7, source); s.Problem == nil {
		t.Errorf("the end of the waiver opened no problem: %+v", s)
	}
}

// TestUnexpectedComponentIsAProblem reports a component that the directive does not define, and expects a problem. All
// other components are compliant.
func TestUnexpectedComponentIsAProblem(t *testing.T) {
	v := newTestView()
	source := model.DirectiveSource(1000)
	r := report(policy.Compliant, policy.Compliant, policy.Compliant)
	r.Exceptions = []wire.ReportException{{Position: 3, Message: "Other x: surprise"}}
	v.report(t, 5, wire.Live, 0, r)
	if s, ok := v.events.Get(7, source); !ok || s.Problem == nil || s.Output != "3 of 3 components compliant, 1 unexpected; unexpected: Other x: surprise" {
		t.Errorf("event %+v", s)
	}
	if list := wire.UnexpectedComponents(v.Runs(7)[0].Exceptions(), 3); len(list) != 1 {
		t.Errorf("the run has the unexpected components %+v", list)
	}
	v.report(t, 5, wire.Live, 0, report(policy.Compliant, policy.Compliant, policy.Compliant))
	if s, _ := v.events.Get(7, source); s.Status != model.OK {
		t.Errorf("event %+v", s)
	}
}

// TestUncountedComponentIsNoProblem reports a failure of a component with reporting disabled, and expects no
// problem. The event counts the others by the mode of their block.
func TestUncountedComponentIsNoProblem(t *testing.T) {
	v := newTestView()
	source := model.DirectiveSource(1000)
	v.report(t, 9, wire.Live, 0, report(policy.NonCompliant, policy.Compliant, policy.Compliant))
	if s, ok := v.events.Get(7, source); ok {
		t.Errorf("a disabled component made the event %+v", s)
	}
	v.report(t, 9, wire.Live, 0, report(policy.NonCompliant, policy.Compliant, policy.NonCompliant))
	if s, ok := v.events.Get(7, source); !ok || s.Problem == nil || s.Output != "0 of 2 components compliant; service: non-compliant" {
		t.Errorf("event %+v", s)
	}
}

// TestCompliantEventIsDeletedAfterRetention expects the view to delete a directive's event after seven days of
// compliance. A later run that is not compliant makes a new event.
func TestCompliantEventIsDeletedAfterRetention(t *testing.T) {
	v := newTestView()
	source := model.DirectiveSource(1000)
	good, bad := report(policy.Compliant, policy.Compliant, policy.Compliant), report(policy.NonCompliant, policy.Compliant, policy.Compliant)
	v.report(t, 5, wire.Live, 0, bad)
	v.number += 8 * 24 * 60 // minutes: an open problem has no age
	v.report(t, 5, wire.Live, 0, bad)
	v.report(t, 5, wire.Live, 0, good)
	v.number += 7*24*60 - 2
	v.report(t, 5, wire.Live, 0, good)
	if s, ok := v.events.Get(7, source); !ok || s.Status != model.OK {
		t.Fatalf("event %+v, %v, before its retention has passed", s, ok)
	}
	v.report(t, 5, wire.Live, 0, good)
	if s, ok := v.events.Get(7, source); ok || v.lastRunsText() != "5: compliant compliant compliant" {
		t.Fatalf("event %+v is left after its retention, or the last run %s is not", s, v.lastRunsText())
	}
	v.report(t, 5, wire.Live, 0, bad)
	if s, _ := v.events.Get(7, source); s.Problem == nil || len(v.transitions) != 6 { // two for each change
		t.Errorf("event %+v, transitions %+v", s, v.transitions)
	}
}

// TestGracePeriodDelaysProblem reports failures within the grace period of a directive, and expects no problem. The first
// run after the period opens a problem. An open problem of the definition before stays open.
func TestGracePeriodDelaysProblem(t *testing.T) {
	v := newTestView()
	source := model.DirectiveSource(1000)
	run := func(definition model.DefinitionID, held time.Duration, want string, statuses ...policy.Status) {
		t.Helper()
		r := report(statuses...)
		r.HeldMs = uint64(held.Milliseconds())
		v.report(t, definition, wire.Live, 0, r)
		got := "none"
		if s, ok := v.events.Get(7, source); ok {
			got = s.Status.String()
		}
		if got != want || !strings.HasPrefix(v.lastRunsText(), fmt.Sprint(definition, ": ", statuses[0])) {
			t.Errorf("held for %s: event %s, want %s; runs %s", held, got, want, v.lastRunsText())
		}
	}
	bad, good := policy.NonCompliant, policy.Compliant
	run(8, 0, "none", bad, good, good)
	run(8, 59*time.Minute, "none", bad, good, good)
	run(8, time.Hour, "CRITICAL", bad, good, good)
	run(8, 2*time.Hour, "OK", good, good, good)
	run(8, time.Minute, "OK", bad, good, good)
	run(8, 2*time.Hour, "CRITICAL", bad, good, good)
	run(8, time.Minute, "CRITICAL", bad, bad, good)
}

// TestReportsMakeRunsAndOneEvent applies new, repeated and late reports, and expects the last run and one event
// per directive. Repeated and late reports are among the reports.
func TestReportsMakeRunsAndOneEvent(t *testing.T) {
	v := newTestView()
	source := model.DirectiveSource(1000)
	state := func(want string) {
		t.Helper()
		s, ok := v.events.Get(7, source)
		got := "none"
		if ok {
			got = s.Status.String()
			if s.Problem != nil {
				got += " problem"
			}
		}
		if got != want {
			t.Errorf("commit %d: event is %s, want %s", v.number, got, want)
		}
	}
	run := func(want string) {
		t.Helper()
		if got := v.lastRunsText(); got != want {
			t.Errorf("commit %d: runs %q, want %q", v.number, got, want)
		}
	}
	v.report(t, 5, wire.Live, 0, report(policy.Compliant, policy.Compliant, policy.NotApplicable))
	state("none")
	run("5: compliant compliant not applicable")
	v.report(t, 5, wire.Backlog, time.Hour, report(policy.NonCompliant, policy.Compliant, policy.Compliant))
	state("none") // an old run does not judge the present
	run("5: compliant compliant not applicable")
	bad := report(policy.NonCompliant, policy.Compliant, policy.CouldNotCheck)
	bad.Exceptions = []wire.ReportException{{Position: 0, Message: "PermitRootLogin is yes"}, {Position: 2, Message: "no systemd"}}
	v.report(t, 5, wire.Live, 0, bad)
	state("CRITICAL problem")
	run("5: non-compliant compliant could not check")
	s, _ := v.events.Get(7, source)
	if want := "1 of 3 components compliant; root login: non-compliant: PermitRootLogin is yes\nservice: could not check: no systemd"; s.Output != want {
		t.Errorf("output %q, want %q", s.Output, want)
	}
	if s.Source() != source || source.CommandName("sshd") != "sshd:compliance" || v.transitions[len(v.transitions)-1].Source != source {
		t.Errorf("source %+v, transitions %+v", s.Source(), v.transitions)
	}
	ended := report(policy.Compliant, policy.Missing, policy.Missing)
	ended.Ended = "the run took longer than 1m"
	v.report(t, 5, wire.Live, 0, ended)
	state("UNKNOWN problem")
	run("5: compliant missing missing" + ended.Ended)
	v.report(t, 5, wire.Live, 0, report(policy.Success, policy.Repaired, policy.Success))
	state("OK")
	run("5: success repaired success")
	v.report(t, 5, wire.Live, 0, report(policy.Success, policy.Success)) // two components of three
	v.report(t, 5, wire.Live, 0, wire.Report{Components: 3, Codes: []byte{0xff, 0x0f}})
	v.report(t, 99, wire.Live, 0, report(policy.Error))
	run("5: success repaired success")
	v.report(t, 6, wire.Live, 0, report(policy.Success, policy.Error))
	state("CRITICAL problem")
	v.report(t, 7, wire.Live, 0, report(policy.NonCompliant, policy.Compliant, policy.Compliant))
	run("6: success error; 7: non-compliant compliant compliant")
	if other, ok := v.events.Get(7, model.DirectiveSource(1001)); !ok || other.Status != model.Warning {
		t.Errorf("the event of severity warning: %+v", other)
	}

	// A snapshot after any commit gives the same state as the whole journal.
	want := v.events.Hash(7)
	for after := range len(v.commits) {
		first, second := newTestView(), newTestView()
		for _, c := range v.commits[:after+1] {
			_ = first.events.Apply(c)
		}
		body, at := first.events.Snapshot(7, nil)
		if err := second.events.Restore(7, at, body); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(first.Runs(7), second.Runs(7)) {
			t.Fatalf("restored after %d commits: %+v, want %+v", after+1, second.Runs(7), first.Runs(7))
		}
		for _, c := range v.commits[after+1:] {
			_ = second.events.Apply(c)
		}
		if second.events.Hash(7) != want {
			t.Fatalf("a snapshot after %d commits gives another state", after+1)
		}
	}
	if definitions := v.Definitions(); !definitions[6] || !definitions[7] || len(definitions) != 2 {
		t.Errorf("named definitions %v", definitions)
	}
	v.apply(t, wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: 7, Forget: &wire.ForgetRecord{Check: 1000}}))
	state("none")
	run("7: non-compliant compliant compliant")
	v.apply(t, wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: 7, Forget: &wire.ForgetRecord{Deleted: true}}))
	run("")
}

// goldenRun returns a test run with a value in each field, for the golden file.
func goldenRun() *Run {
	return &Run{Unit: 1000, Executed: 1e18, Changed: 1e18 - 9, DurationMs: 12, Outcome: &Outcome{Definition: 5, Enforced: true, Components: 3, Codes: policy.Codes{0x53, 0x04},
		notes: &runTexts{[]wire.ReportException{{Position: 1, Message: "PermitRootLogin is yes"}}, "the run took too long"}}}
}

// TestSnapshotMatchesGoldenFile encodes a run, and compares the bytes with a golden file.
func TestSnapshotMatchesGoldenFile(t *testing.T) {
	testenv.Golden(t, "testdata/run-v2.hex", hex.Dump(goldenRun().append(nil)), "a new SectionVersion")
}

// FuzzDecodeRun decodes random bytes as a stored run, and expects an error or the same run after re-encoding.
func FuzzDecodeRun(f *testing.F) {
	f.Add(goldenRun().append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := shard.NewDecoder(data)
		r := decodeRun(d)
		if d.Err() != nil {
			return
		}
		again := shard.NewDecoder(r.append(nil))
		if other := decodeRun(again); again.Err() != nil || !bytes.Equal(r.append(nil), other.append(nil)) {
			t.Fatalf("own bytes differ: %+v, %+v", r, other)
		}
	})
}
