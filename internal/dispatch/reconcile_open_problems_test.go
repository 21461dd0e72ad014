package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// testView replaces the event states in memory for a test, with problems that the test opens. It has the open
// problems by node, and the time since which other nodes are OK.
type testView struct {
	mu      sync.Mutex
	open    map[model.NodeID]*model.Problem
	okSince map[model.NodeID]int64 // Unix ns
}

// openProblem opens a problem on a node in the simulated event states.
func (v *testView) openProblem(node model.NodeID, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[model.NodeID]*model.Problem{}
	}
	v.open[node] = &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(1001), Definition: 3, Status: model.Critical, Severity: model.High, Opened: testTime, Output: "as it opened"}
}

// present returns the present state of a check on a node from the simulated event states.
func (v *testView) present(node model.NodeID, source model.Source) *event.Transition {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.open[node]; p != nil {
		s := stateOf(p, model.Critical)
		s.Executed, s.Output = testTime.UnixNano(), "as it is"
		return s
	}
	if at, ok := v.okSince[node]; ok {
		return &event.Transition{Namespace: 1, Executed: testTime.UnixNano(), Received: at, Output: "OK again"}
	}
	return nil
}

// eachOpen calls fn with each problem that the test has opened.
func (v *testView) eachOpen(fn func(*model.Problem)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.open {
		fn(p)
	}
}

// compareProblems returns a function that calls Dispatcher.CompareOpenProblems with the simulated open problems.
func (v *testView) compareProblems(at uint64) func(*Dispatcher) {
	return func(r *Dispatcher) { r.CompareOpenProblems(positionAt(at), v.eachOpen) }
}

// missedProblems returns how many missing openings or closings the dispatcher has corrected, from its metrics.
func missedProblems(r *runningDispatcher, done string) float64 {
	return testutil.ToFloat64(r.metrics.missed.WithLabelValues(done))
}

// decodeRequest decodes the notification in the body of a request that a webhook received.
func decodeRequest(t *testing.T, p webhookRequest) *handler.Notification {
	t.Helper()
	n := &handler.Notification{}
	testenv.NoError(t, json.Unmarshal([]byte(p.body), n))
	return n
}

// TestStartNotifiesProblemsMissingInHistory starts a server whose history lacks openings and closings of problems,
// and expects one message about each
func TestStartNotifiesProblemsMissingInHistory(t *testing.T) {
	spec, got := newWebhook(t, nil)
	s, n, v := openSQLiteStore(t), newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), &testView{}
	o := Options{Store: s, Names: n, Routing: RoutingOptions{Present: v.present}}
	r := startDispatcher(t, o)
	other := openingTransition("over", 1)
	other.Node, other.Problem.NodeID = 11, 11
	unknown := openingTransition("unknown", 1)
	unknown.Index, unknown.Node, unknown.Problem.NodeID = 1, 12, 12 // the view has no state of this node
	r.Emit([]event.Transition{other, unknown})
	r.waitRecorded(positionAt(1))
	receiveFrom(t, "message", got)
	receiveFrom(t, "message", got)
	r.stop()

	v.openProblem(10, "lost")
	v.openProblem(13, "coming") // the replay brings its opening after the start
	v.okSince = map[model.NodeID]int64{11: testTime.Add(time.Hour).UnixNano()}
	coming := openingTransition("coming", 5)
	coming.Node, coming.Problem.NodeID = 13, 13
	hold := make(chan struct{})
	s.beforeRecord = func(b history.Batch) error {
		<-hold
		return nil
	}
	r = startDispatcher(t, o, v.compareProblems(5), func(r *Dispatcher) { r.Emit([]event.Transition{coming}) })
	if len(got) != 0 {
		t.Error("a handler was notified before the replay was recorded")
	}
	close(hold)
	notified := map[string]*handler.Notification{}
	for range 3 {
		p := receiveFrom(t, "message", got)
		notified[p.key] = decodeRequest(t, p)
	}
	lost, over, as := notified["lost/opened/default/pager"], notified["over/closed/default/pager"], notified["coming/opened/default/pager"]
	if lost == nil || over == nil || as == nil {
		t.Fatalf("%v", notified)
	}
	if lost.Output != "as it is\nlate notification: the problem opened at 2026-03-01T12:00:00Z, but the server found it only at its start" || !lost.Opened.Equal(testTime) || lost.Node != "web01" {
		t.Errorf("%+v", lost)
	}
	if !over.Closed.Equal(testTime.Add(time.Hour)) || over.Status != "OK" || over.Output != "OK again\nlate notification: the server found the end of the problem only at its start" {
		t.Errorf("%+v", over)
	}
	if strings.Contains(as.Output, "late") {
		t.Errorf("%+v", as)
	}
	if opened, closed := missedProblems(r, "opened"), missedProblems(r, "closed"); opened != 1 || closed != 1 {
		t.Errorf("%v were opened and %v closed", opened, closed)
	}
	if p, err := s.Problem(t.Context(), "over"); err != nil || !p.Closed.Equal(testTime.Add(time.Hour)) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := s.Problem(t.Context(), "unknown"); err != nil || !p.Closed.IsZero() {
		t.Errorf("%+v, %v", p, err)
	}
	r.stop()

	r = startDispatcher(t, o, v.compareProblems(5)) // nothing is notified again
	r.Emit([]event.Transition{closingTransition("lost", 6)})
	r.waitRecorded(positionAt(6))
	if m := receiveFrom(t, "message", got); m.key != "lost/closed/default/pager" || len(got) != 0 {
		t.Errorf("%+v, and %d more", m, len(got))
	}
	if n := missedProblems(r, "opened") + missedProblems(r, "closed") + testutil.ToFloat64(r.metrics.unopened); n != 0 {
		t.Errorf("%v differ still", n)
	}
}

// unrelatedTransition returns an event change on another node, whose recording marks the end of a test's
// changes. When a test finds its row in history, all earlier changes were processed.
func unrelatedTransition(commit uint64) event.Transition {
	t := statusTransition(1, commit, 0)
	t.Node = 9999
	return t
}

// TestOlderHistoryRecordsOpenProblemsWithoutMessage checks that a new or restored history database records older open
// problems without notifying anybody. Problems that opened later were lost and are notified.
func TestOlderHistoryRecordsOpenProblemsWithoutMessage(t *testing.T) {
	for name, row := range map[string]struct {
		unknownUntil time.Time // zero: history is complete
		open         int
		done         string
	}{
		"new":          {testTime.Add(time.Hour), 1, "adopted"},
		"older":        {testTime, 1, "adopted"},
		"a large one":  {testTime.Add(24 * time.Hour), 200, "adopted"},
		"one was lost": {testTime.Add(-time.Second), 1, "opened"},
		"many were":    {time.Time{}, 200, "opened"},
	} {
		t.Run(name, func(t *testing.T) {
			s, n, v := openSQLiteStore(t), newTestDirectory(map[string]*model.HandlerSpec{}), &testView{}
			n.definition.Handlers = []string{"pager"}
			o := Options{Store: s, Names: n, Routing: RoutingOptions{Present: v.present}}
			for i := range row.open {
				v.openProblem(model.NodeID(10+i), fmt.Sprintf("lost%d", i))
			}
			unknown := func(r *Dispatcher) { r.router.unknownUntil = row.unknownUntil }
			r := startDispatcher(t, o, unknown, v.compareProblems(5))
			r.Emit([]event.Transition{unrelatedTransition(6)})
			r.waitRecorded(positionAt(6))
			if n := missedProblems(r, row.done); n != float64(row.open) {
				t.Errorf("%v are %s, want %d", n, row.done, row.open)
			}
			list, err := s.Deliveries(t.Context(), "lost0")
			if err != nil || len(list) != 1 || (list[0].State == history.Withheld) != (row.done == "adopted") {
				t.Errorf("%+v, %v", list, err)
			}
			r.stop()
			r = startDispatcher(t, o, unknown, v.compareProblems(6))
			r.Emit([]event.Transition{unrelatedTransition(7)})
			r.waitRecorded(positionAt(7))
			if n := missedProblems(r, "opened") + missedProblems(r, "adopted"); n != 0 {
				t.Errorf("%v more at the next start", n)
			}
		})
	}
}

// TestOlderHistoryNotifiesNobodyTwice restores an older history database and replays the journal, and expects no
// repeated message. The event changes (transitions) must be recorded, without messages. Later ones are sent.
func TestOlderHistoryNotifiesNobodyTwice(t *testing.T) {
	spec, got := newWebhook(t, nil)
	s, v := openSQLiteStore(t), &testView{}
	marks := 0
	var r *runningDispatcher
	o := Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), Routing: RoutingOptions{Present: v.present},
		MarkRecorded: func(ctx context.Context) {
			marks++
			due, _, err := s.Due(ctx, time.Now().Add(time.Hour), 10, nil)
			if err != nil || len(due) != 1 {
				t.Errorf("due: %+v, %v", due, err)
				return
			}
			if _, ok := r.deliver.outbox.reserve(&due[0]); ok {
				t.Errorf("%s leaves before the mark", due[0].Key)
			}
		}}
	r = startDispatcher(t, o)
	r.Emit([]event.Transition{openingTransition("known", 1)})
	r.waitRecorded(positionAt(1))
	receiveFrom(t, "message", got)
	if r.stop(); marks != 1 {
		t.Errorf("%d marks for one message", marks)
	}

	// The records of a second problem and of the closing were lost.
	lost, closed := openingTransition("lost", 2), closingTransition("known", 3)
	r = startDispatcher(t, o, func(r *Dispatcher) { r.router.unknownUntil = time.Unix(0, max(lost.Received, closed.Received)) })
	lost.Node, lost.Problem.NodeID = 11, 11
	later := openingTransition("later", 4)
	later.Node, later.Problem.NodeID = 12, 12
	later.Received = max(lost.Received, closed.Received) + 1
	r.Emit([]event.Transition{lost, closed, later})
	r.waitRecorded(positionAt(4))
	if m := receiveFrom(t, "message", got); m.key != "later/opened/default/pager" {
		t.Errorf("sent %s", m.key)
	}
	for problem, want := range map[string]history.DeliveryState{"lost": history.Withheld, "known": history.Withheld} {
		list, err := s.Deliveries(t.Context(), problem)
		if last := len(list) - 1; err != nil || last < 0 || list[last].State != want || list[last].LastError != history.ReasonUnknown {
			t.Errorf("%s: %+v, %v", problem, list, err)
		}
	}
	if p, err := s.Problem(t.Context(), "known"); err != nil || p.Closed.IsZero() || len(got) != 0 {
		t.Errorf("%+v, %v; %d more messages", p, err, len(got))
	}
}

// TestHeldProblemsAreNotMissing restarts with open problems whose first messages are held back, and expects no
// repair of history.
func TestHeldProblemsAreNotMissing(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute(), "quiet": &model.SilenceSpec{Reason: "known"}})
	p.openProblem("p1", 10, model.Critical, model.High)
	testenv.NoError(t, p.store.Record(t.Context(), history.Batch{Opened: []history.Problem{{Problem: *p.open["p1"], Namespace: "default", Node: "web01", SourceName: "disk"}}}))
	v := &testView{}
	v.openProblem(10, "p1")
	r := New(Options{Store: p.store, Names: p.names, Routing: RoutingOptions{Table: p.table, Present: v.present}})
	testenv.NoError(t, r.Load(t.Context(), nil))
	r.CompareOpenProblems(positionAt(1), v.eachOpen)
	if len(r.reconciliation.opened)+len(r.reconciliation.closed) != 0 {
		t.Errorf("%+v", r.reconciliation)
	}
}

// TestLateProblemsOfAGroupAreCounted expects a message to state how many of its problems are reported late, also
// after a restart
func TestLateProblemsOfAGroupAreCounted(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	var sent []history.Delivery
	p.store.beforeRecord = func(b history.Batch) error {
		sent = append(sent, b.Deliveries...)
		return nil
	}
	p.openProblem("p1", 10, model.Critical, model.High)
	p.open["p2"] = &model.Problem{ID: "p2", NodeID: 11, Source: model.CheckSource(1001), Definition: 3, Status: model.Critical, Severity: model.High, Opened: p.now.Add(-time.Hour)}
	change := p.problemChange(event.ProblemOpened, "p2", nil)
	change.late = true
	p.recordBatch(func(o *deliveryBatch) error { return p.r.applyProblemChange(o, change) })
	p.runScript(`restart; after 1m; expect pager summary p1+p2`)
	if n, err := handler.Decode(sent[0].Payload); err != nil || !strings.HasSuffix(n.Output, "\nlate notification: 1 of these problems opened at 2026-03-01T11:00:00Z or later, but the server found them only at its start") {
		t.Errorf("%+v, %v", n, err)
	}
}
