package react

import (
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

// testView is an event view: the open problems by node, and the time since which other nodes are OK.
type testView struct {
	mu      sync.Mutex
	open    map[model.NodeID]*model.Problem
	okSince map[model.NodeID]int64 // Unix ns
}

func (v *testView) opens(node model.NodeID, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[model.NodeID]*model.Problem{}
	}
	v.open[node] = &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(1001), Chunk: 3, Status: model.Critical, Severity: model.High, Opened: testTime, Output: "as it opened"}
}

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

func (v *testView) eachOpen(fn func(*model.Problem)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.open {
		fn(p)
	}
}

func (v *testView) compared(at uint64) func(*Reactor) {
	return func(r *Reactor) { r.Compare(positionAt(at), v.eachOpen) }
}

func missedProblems(r *runningReactor, done string) float64 {
	return testutil.ToFloat64(r.metrics.missed.WithLabelValues(done))
}

func decodeRequest(t *testing.T, p webhookRequest) *handler.Notification {
	t.Helper()
	n := &handler.Notification{}
	testenv.NoError(t, json.Unmarshal([]byte(p.body), n))
	return n
}

// At its start the server notifies, once, of open problems that history lacks after the replay, and of problems whose end was
// lost.
func TestStartNotifiesProblemsMissingInHistory(t *testing.T) {
	spec, got := newWebhook(t, nil)
	s, n, v := openSQLite(t), newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), &testView{}
	o := Options{Store: s, Names: n, Routing: RoutingOptions{Present: v.present}}
	r := startReactor(t, o)
	other := openingTransition("over", 1)
	other.Node, other.Problem.NodeID = 11, 11
	unknown := openingTransition("unknown", 1)
	unknown.Index, unknown.Node, unknown.Problem.NodeID = 1, 12, 12 // the view has no state of this node
	r.Emit([]event.Transition{other, unknown})
	r.waitRecorded(positionAt(1))
	receiveFrom(t, "message", got)
	receiveFrom(t, "message", got)
	r.stop()

	v.opens(10, "lost")
	v.opens(13, "coming") // the replay brings its opening after the start
	v.okSince = map[model.NodeID]int64{11: testTime.Add(time.Hour).UnixNano()}
	coming := openingTransition("coming", 5)
	coming.Node, coming.Problem.NodeID = 13, 13
	hold := make(chan struct{})
	s.beforeRecord = func(b history.Batch) error {
		<-hold
		return nil
	}
	r = startReactor(t, o, v.compared(5), func(r *Reactor) { r.Emit([]event.Transition{coming}) })
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
	if lost.Output != "as it is\nlate: it opened at 2026-03-01T12:00:00Z; the server recovered it at its start" || !lost.Opened.Equal(testTime) || lost.Node != "web01" {
		t.Errorf("%+v", lost)
	}
	if !over.Closed.Equal(testTime.Add(time.Hour)) || over.Status != "OK" || over.Output != "OK again\nlate: the server recovered its end at its start" {
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

	r = startReactor(t, o, v.compared(5)) // nothing is notified again
	r.Emit([]event.Transition{closingTransition("lost", 6)})
	r.waitRecorded(positionAt(6))
	if m := receiveFrom(t, "message", got); m.key != "lost/closed/default/pager" || len(got) != 0 {
		t.Errorf("%+v, and %d more", m, len(got))
	}
	if n := missedProblems(r, "opened") + missedProblems(r, "closed") + testutil.ToFloat64(r.metrics.unopened); n != 0 {
		t.Errorf("%v differ still", n)
	}
}

// unrelatedTransition returns a transition of another node: once it is recorded, so are the lost ones before it.
func unrelatedTransition(commit uint64) event.Transition {
	t := statusTransition(1, commit, 0)
	t.Node = 9999
	return t
}

// A new or restored history does not know who was notified of problems that opened before its time: it adopts them silently, at
// every start. Problems that opened in its time were lost and are notified.
func TestNewHistoryAdoptsOpenProblemsSilently(t *testing.T) {
	for name, row := range map[string]struct {
		aliveUntil time.Time // history was complete up to then; zero: history is empty
		open       int
		done       string
	}{
		"empty":        {time.Time{}, 1, "adopted"},
		"restored":     {testTime.Add(-5 * time.Minute), 1, "adopted"},
		"a large one":  {testTime.Add(-24 * time.Hour), 200, "adopted"},
		"one was lost": {testTime.Add(-5 * time.Second), 1, "opened"},
		"many were":    {testTime.Add(time.Hour), 200, "opened"},
	} {
		t.Run(name, func(t *testing.T) {
			s, n, v := openSQLite(t), newTestDirectory(map[string]*model.HandlerSpec{}), &testView{}
			n.chunk.Handlers = []string{"pager"}
			o := Options{Store: s, Names: n, Routing: RoutingOptions{Present: v.present}}
			if !row.aliveUntil.IsZero() {
				testenv.NoError(t, s.RecordAlive(t.Context(), row.aliveUntil))
			}
			for i := range row.open {
				v.opens(model.NodeID(10+i), fmt.Sprintf("lost%d", i))
			}
			r := startReactor(t, o, v.compared(5))
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
			r = startReactor(t, o, v.compared(6))
			r.Emit([]event.Transition{unrelatedTransition(7)})
			r.waitRecorded(positionAt(7))
			if n := missedProblems(r, "opened") + missedProblems(r, "adopted"); n != 0 {
				t.Errorf("%v more at the next start", n)
			}
		})
	}
}

// History records the time up to which it is complete, at most every interval, and not while it reconciles: the next server has
// to do that then.
func TestHistoryRecordsUntilWhenItIsComplete(t *testing.T) {
	s, v := openSQLite(t), &testView{}
	now := testTime
	r := New(Options{Store: s, Names: newTestDirectory(nil), Routing: RoutingOptions{Present: v.present}, Now: func() time.Time { return now }})
	is := func(what string, want time.Time) {
		t.Helper()
		r.recordAlive(t.Context())
		if got, err := s.AliveUntil(t.Context()); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, want %v, %v", what, got, want, err)
		}
	}
	r.reconciliation = &reconciliation{}
	is("it misses something", time.Time{})
	r.reconciliation = nil
	is("it is there", testTime)
	now = now.Add(aliveInterval - time.Second)
	is("not that often", testTime)
	now = now.Add(time.Second)
	is("later", now)
	waits := openingTransition("p1", 1)
	waits.Received = now.Add(-time.Second).UnixNano()
	r.Emit([]event.Transition{waits})
	now = now.Add(aliveInterval)
	is("something waits", time.Unix(0, waits.Received).UTC())
}

// A problem that is withheld, silenced or waits for its group is known to history, so it is not notified as lost.
func TestHeldProblemsAreNotMissing(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": onCallRoute(), "quiet": &model.SilenceSpec{Reason: "known"}})
	p.openProblem("p1", 10, model.Critical, model.High)
	testenv.NoError(t, p.store.Record(t.Context(), history.Batch{Opened: []history.Problem{{Problem: *p.open["p1"], Namespace: "default", Node: "web01", SourceName: "disk"}}}))
	v := &testView{}
	v.opens(10, "p1")
	r := New(Options{Store: p.store, Names: p.names, Routing: RoutingOptions{Table: p.table, Present: v.present}})
	testenv.NoError(t, r.Load(t.Context(), nil))
	r.Compare(positionAt(1), v.eachOpen)
	if len(r.reconciliation.opened)+len(r.reconciliation.closed) != 0 {
		t.Errorf("%+v", r.reconciliation)
	}
}

// The message of a group counts its late problems, also after a restart.
func TestLateProblemsOfAGroupAreCounted(t *testing.T) {
	p := newRouterScenario(t, map[string]model.Spec{"default": routeTo("pager", nil)})
	var sent []history.Delivery
	p.store.beforeRecord = func(b history.Batch) error {
		sent = append(sent, b.Deliveries...)
		return nil
	}
	p.openProblem("p1", 10, model.Critical, model.High)
	p.open["p2"] = &model.Problem{ID: "p2", NodeID: 11, Source: model.CheckSource(1001), Chunk: 3, Status: model.Critical, Severity: model.High, Opened: p.now.Add(-time.Hour)}
	change := p.problemChange(event.ProblemOpened, "p2", nil)
	change.late = true
	p.recordBatch(func(o *deliveryBatch) error { return p.r.apply(o, change) })
	p.script(`restart; after 1m; expect pager summary p1+p2`)
	if n, err := handler.Decode(sent[0].Payload); err != nil || !strings.HasSuffix(n.Output, "\nlate: 1 of them opened from 2026-03-01T11:00:00Z on; the server recovered them at its start") {
		t.Errorf("%+v, %v", n, err)
	}
}
