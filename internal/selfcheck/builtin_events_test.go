package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/store/history"
)

// cloneReport returns a test report about a second machine that uses a node's identity.
func cloneReport(address string) core.Clone {
	return core.Clone{
		Node:    core.Node{ID: 7, Name: "web01"},
		Holder:  core.Peer{Address: "10.0.0.1", Machine: "11111111", Since: time.Unix(1_700_000_000, 0).UTC()},
		Refused: core.Peer{Address: address, Machine: "22222222"},
	}
}

// TestIdentityEventFollowsClones expects an event about duplicate identity on a node while a cloned machine
// uses the node's identity. The event closes ten minutes after the last attempt.
func TestIdentityEventFollowsClones(t *testing.T) {
	var written []string
	var fail error
	w := faultTracker{status: model.Critical, closed: "no second machine used the identity of this node", open: map[model.NodeID]*faultPeriod{}, write: func(node model.NodeID, status model.Status, text string) error {
		if fail != nil {
			return fail
		}
		written = append(written, fmt.Sprintf("%d %d %s", node, status, text))
		return nil
	}}
	wrote := func(what string, n int) {
		t.Helper()
		if len(written) != n {
			t.Fatalf("%s: %d were written, want %d: %q", what, len(written), n, written)
		}
	}
	ticks := func(n int) {
		for range n {
			w.closeEndedFaults()
		}
	}
	came := func(address string) (string, bool) {
		c := cloneReport(address)
		text := identityEventText(c)
		return text, w.recordFault(c.Node.ID, text, text)
	}
	if text, first := came("10.0.0.2"); !first || !strings.Contains(written[0], text) {
		t.Fatalf("%q %v %q", text, first, written)
	}
	for _, part := range []string{"10.0.0.1 (machine 11111111) is connected since 2023-11-14T22:13:20Z", "10.0.0.2 (machine 22222222)", "muster-agent reset-identity"} {
		if !strings.Contains(written[0], part) {
			t.Errorf("%q lacks %q", written[0], part)
		}
	}
	if _, first := came("10.0.0.2"); first {
		t.Error("the same clone is the first twice")
	}
	wrote("the same at once", 1)
	came("10.0.0.3")
	wrote("from another address", 2)
	ticks(episodeRepeat)
	came("10.0.0.3")
	wrote("the same, a minute later", 3)
	ticks(episodeLength - 1)
	wrote("almost ten minutes later", 3)
	fail = errors.New("the disk is full")
	w.closeEndedFaults()
	fail = nil
	w.closeEndedFaults()
	wrote("ten minutes later", 4)
	if !strings.HasPrefix(written[3], "7 0 no second machine used the identity of this node for 10m") {
		t.Errorf("closed with %q", written[3])
	}
	ticks(episodeLength)
	wrote("closed once", 4)
	if _, first := came("10.0.0.3"); !first {
		t.Error("after the event was closed, a clone is not the first")
	}
}

// TestOpenEventsAreFoundAfterRestart restarts the monitor, and expects the built-in events that were open to be
// found again. It finds the events on all pages, so that they can close.
func TestOpenEventsAreFoundAfterRestart(t *testing.T) {
	asked := 0
	m := New(Options{Events: func(_ context.Context, q event.Query) (event.Page, error) {
		if len(q.Checks) != 1 || q.Checks[0] != model.IdentityCheck || slices.Contains(q.Statuses, model.OK) {
			t.Errorf("asked for %+v", q)
		}
		asked++
		if q.After == "" {
			return event.Page{States: []event.State{{Node: 7}}, Next: "more"}, nil
		}
		return event.Page{States: []event.State{{Node: 8}}}, nil
	}})
	e, err := m.newFaultTracker(t.Context(), model.IdentityCheck, model.Critical, "")
	if err != nil || asked != 2 || len(e.open) != 2 || e.open[7] == nil || e.open[8] == nil {
		t.Errorf("open are %v after %d pages, %v", e.open, asked, err)
	}
}

// TestReachedLimitOpensEvent expects one event per reached limit, with the first node that reached the limit.
// The event has the command that raises the limit, and closes after ten minutes.
func TestReachedLimitOpensEvent(t *testing.T) {
	var written []string
	e := &faultTracker{status: model.Warning, closed: "no limit was reached", open: map[model.NodeID]*faultPeriod{}}
	e.write = func(node model.NodeID, status model.Status, text string) error {
		written = append(written, fmt.Sprintf("%d %d %s", node, status, text))
		return nil
	}
	ids := map[string]model.NodeID{"team/a": 1, "team/b": 2, "other/a": 3}
	q := limitEvents{faultTracker: e, nodes: map[namespaceLimit]model.NodeID{}, findNode: func(namespace, name string) (model.NodeID, bool) {
		id, ok := ids[namespace+"/"+name]
		return id, ok
	}}
	at := time.Unix(1_700_000_000, 0)
	hit := func(namespace, node, limit string, ago int) core.LimitHit {
		return core.LimitHit{Namespace: namespace, Node: node, Limit: limit, Count: 7, Last: at.Add(time.Duration(-ago) * episodeTick), Reason: "too much"}
	}
	look := func(hits ...core.LimitHit) []string {
		written = nil
		q.updateEvents(hits, at.Add(-episodeTick))
		q.closeEndedFaults()
		slices.Sort(written)
		return written
	}
	if got := look(hit("team", "a", "namespace_rate", 0), hit("other", "a", "output", 0), hit("team", "gone", "labels", 0), hit("team", "b", "node_rate", 3)); len(got) != 2 ||
		!strings.HasPrefix(got[0], "1 1 namespace team reached a limit 7 times, last by sender a: too much; spec.limits.resultsPerSec: muster edit namespace team") ||
		!strings.HasPrefix(got[1], "3 1 namespace other reached") {
		t.Fatalf("%q", got)
	}
	if got := look(hit("team", "b", "namespace_rate", 0), hit("other", "a", "output", 0)); len(got) != 0 {
		t.Errorf("the same, by another node, is told again: %q", got)
	}
	if got := look(hit("team", "b", "namespace_rate", 0), hit("team", "b", "node_rate", 0), hit("other", "a", "output", 1)); len(got) != 1 || !strings.HasPrefix(got[0], "2 1 ") || strings.Contains(got[0], "resultsPerSec: muster edit namespace team\n") {
		t.Errorf("another limit of another node: %q", got)
	}
	for range episodeLength - 3 {
		if got := look(); len(got) != 0 {
			t.Fatalf("closed too early: %q", got)
		}
	}
	var closed []string
	for range 3 {
		closed = append(closed, look()...)
	}
	if slices.Sort(closed); len(closed) != 3 || closed[0] != "1 0 no limit was reached for 10m0s" || len(e.open) != 0 {
		t.Errorf("after ten minutes: %q, open %v", closed, e.open)
	}
	if got := look(hit("team", "b", "namespace_rate", 0)); len(got) != 1 || !strings.HasPrefix(got[0], "2 1 ") {
		t.Errorf("again, after it was closed: %q", got)
	}
}

// TestMassOutage reports silent nodes, and expects a mass outage only if a large share of nodes is silent. The
// share within one timeout counts, compared to the fleet's size; the test also checks how long messages are
// held.
func TestMassOutage(t *testing.T) {
	start := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	m := &outageDetector{timeout: 2 * time.Minute}
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		second, nodes, all int
		sum                int
		mass               bool
	}{
		{0, 9, 20, 9, false},      // nine machines are few, whatever their share
		{1, 1, 100, 10, false},    // a tenth
		{60, 15, 100, 25, true},   // within one time-out
		{119, 1, 1000, 26, false}, // of a larger fleet
		{121, 1, 100, 17, false},  // the first ones are longer ago
		{400, 30, 100, 30, true},
	} {
		if sum, mass := m.countSilentNodes(at(c.second), c.nodes, c.all); sum != c.sum || mass != c.mass {
			t.Errorf("second %d: %d silent, many: %v; want %d, %v", c.second, sum, mass, c.sum, c.mass)
		}
	}
	hour := &outageDetector{timeout: 2 * time.Minute}
	for second := range 3600 / 30 { // told all at once, but an hour's worth
		if sum, mass := hour.countSilentNodes(at(30*second), 1, 10); mass || sum > 4 {
			t.Fatalf("second %d: %d silent, many: %v", 30*second, sum, mass)
		}
	}
	if m.delayReason(start) != nil {
		t.Error("held before it was many")
	}
	if !m.startOrExtendOutage(start, "sessions were lost") || m.startOrExtendOutage(at(130), "and fell silent") {
		t.Error("one episode is told once")
	}
	if h := m.delayReason(at(369)); h == nil || h.Kind != route.ManySilent || h.Reason != "sessions were lost" || !h.Until.Equal(at(370)) {
		t.Errorf("held by %+v", h)
	}
	if m.delayReason(at(370)) != nil {
		t.Error("held for more than two time-outs")
	}
	if m.startOrExtendOutage(at(609), "the same still") || !m.startOrExtendOutage(at(609+240+240), "a second time") {
		t.Error("the next episode is told")
	}
}

// TestJournalEventReportsDiskAndClock expects the journal event to report a wrong clock, a full disk and removed
// history. The clock of the journal is ahead of the system's clock.
func TestJournalEventReportsDiskAndClock(t *testing.T) {
	var st journal.Stats
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := New(Options{
		Journal: func() journal.Stats { return st }, FullDisk: func() string { return "Largest here: history.db 439.0 MiB" }, Now: func() time.Time { return now },
		Lag: func() dispatch.Lag { return dispatch.Lag{} }, Trouble: func() error { return nil }, History: func() history.Usage {
			return history.Usage{Store: "history.db", Bytes: 4 << 30, Budget: 4 << 30, Evicted: 7, Latest: now, Node: "default/web01"}
		},
	})
	st = journal.Stats{ClockAhead: time.Hour}
	if status, text := m.journalHealth(); status != model.Warning || !strings.Contains(text, "until 2026-03-01 14:00:00 UTC, results and changes get a too late time, now by 1h") {
		t.Errorf("ahead: %s %q", status, text)
	}
	st = journal.Stats{Blocked: fmt.Errorf("write 1.log: %w", syscall.ENOSPC)}
	if status, text := m.journalHealth(); status != model.Critical || !strings.Contains(text, "history.db 439.0 MiB") || !strings.Contains(text, "when the disk has free space") {
		t.Errorf("full: %s %q", status, text)
	}
	if status, text := m.historyHealth(); status != model.Warning || !strings.Contains(text, "history.db is full: to free space, the server deleted 7 rows up to 2026-03-01 12:00:00 UTC, the last ones mostly of node default/web01, which held more than its share; raise --history-budget (now 4GiB)") {
		t.Errorf("history: %s %q", status, text)
	}
}
