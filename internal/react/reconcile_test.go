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
)

// seenOpen is a view: which problems are open in it, on which node.
type seenOpen struct {
	mu   sync.Mutex
	open map[model.NodeID]*model.Problem
	well map[model.NodeID]int64 // since when
}

func (v *seenOpen) opens(node model.NodeID, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[model.NodeID]*model.Problem{}
	}
	v.open[node] = &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(1001), Chunk: 3, Status: model.Critical, Severity: model.High, Opened: noon, Output: "as it opened"}
}

func (v *seenOpen) present(node model.NodeID, source model.Source) *event.Transition {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.open[node]; p != nil {
		s := stateOf(p, model.Critical)
		s.Executed, s.Output = noon.UnixNano(), "as it is"
		return s
	}
	if at, ok := v.well[node]; ok {
		return &event.Transition{Namespace: 1, Executed: noon.UnixNano(), Received: at, Output: "well again"}
	}
	return nil
}

func (v *seenOpen) eachOpen(fn func(*model.Problem)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.open {
		fn(p)
	}
}

func (v *seenOpen) compared(at uint64) func(*Reactor) {
	return func(r *Reactor) { r.Compare(pos(at), v.eachOpen) }
}

func missedOf(r *running, done string) float64 {
	return testutil.ToFloat64(r.metrics.missed.WithLabelValues(done))
}

func noteOf(t *testing.T, p posted) *handler.Notification {
	t.Helper()
	n := &handler.Notification{}
	if err := json.Unmarshal([]byte(p.body), n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A problem that is open and of which history knows nothing, though all that was on its way is recorded,
// is told when the server starts, once; one whose end was lost ends.
func TestStartNotifiesProblemsMissingInHistory(t *testing.T) {
	spec, got := hook(t, nil)
	s, n, v := sqlite(t), someNames(map[string]*model.HandlerSpec{"pager": spec}), &seenOpen{}
	o := Options{Store: s, Names: n, Routing: RoutingOptions{Present: v.present}}
	r := run(t, o)
	other := opening("over", 1)
	other.Node, other.Problem.NodeID = 11, 11
	unknown := opening("unknown", 1)
	unknown.Index, unknown.Node, unknown.Problem.NodeID = 1, 12, 12 // the view has nothing of it: nobody knows
	r.Emit([]event.Transition{other, unknown})
	r.recorded(pos(1))
	receive(t, "message", got)
	receive(t, "message", got)
	r.stop()

	v.opens(10, "lost")
	v.opens(13, "coming") // its opening is on its way when the server starts
	v.well = map[model.NodeID]int64{11: noon.Add(time.Hour).UnixNano()}
	coming := opening("coming", 5)
	coming.Node, coming.Problem.NodeID = 13, 13
	hold := make(chan struct{})
	s.record = func(b history.Batch) error {
		<-hold
		return nil
	}
	r = run(t, o, v.compared(5), func(r *Reactor) { r.Emit([]event.Transition{coming}) })
	if len(got) != 0 {
		t.Error("somebody is told before what is on its way is recorded")
	}
	close(hold)
	told := map[string]*handler.Notification{}
	for range 3 {
		p := receive(t, "message", got)
		told[p.key] = noteOf(t, p)
	}
	lost, over, as := told["lost/opened/default/pager"], told["over/closed/default/pager"], told["coming/opened/default/pager"]
	if lost == nil || over == nil || as == nil {
		t.Fatalf("%v", told)
	}
	if lost.Output != "as it is\nlate: it opened at 2026-03-01T12:00:00Z; the server recovered it at its start" || !lost.Opened.Equal(noon) || lost.Node != "web01" {
		t.Errorf("%+v", lost)
	}
	if !over.Closed.Equal(noon.Add(time.Hour)) || over.Status != "OK" || over.Output != "well again\nlate: the server recovered its end at its start" {
		t.Errorf("%+v", over)
	}
	if strings.Contains(as.Output, "late") {
		t.Errorf("%+v", as)
	}
	if opened, closed := missedOf(r, "opened"), missedOf(r, "closed"); opened != 1 || closed != 1 {
		t.Errorf("%v were opened and %v closed", opened, closed)
	}
	if p, err := s.Problem(t.Context(), "over"); err != nil || !p.Closed.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := s.Problem(t.Context(), "unknown"); err != nil || !p.Closed.IsZero() {
		t.Errorf("%+v, %v", p, err)
	}
	r.stop()

	r = run(t, o, v.compared(5)) // nothing of it comes again
	r.Emit([]event.Transition{closing("lost", 6)})
	r.recorded(pos(6))
	if m := receive(t, "message", got); m.key != "lost/closed/default/pager" || len(got) != 0 {
		t.Errorf("%+v, and %d more", m, len(got))
	}
	if n := missedOf(r, "opened") + missedOf(r, "closed") + testutil.ToFloat64(r.metrics.unopened); n != 0 {
		t.Errorf("%v differ still", n)
	}
}

// elsewhere is a change that has nothing to do with the problems: once it is recorded, so is what was missed.
func otherPartition(commit uint64) event.Transition {
	t := changed(1, commit, 0)
	t.Node = 9999
	return t
}

// Of a history that was not there when they opened, for it was begun or restored later, nobody can tell who was
// told of problems that are open: nobody is told anew, now or at the next start, however few they are. Those that
// opened when it was there were lost, however many.
func TestNewHistoryNotifiesNobody(t *testing.T) {
	for name, row := range map[string]struct {
		attended time.Time // until when the copy was there; zero: it is empty
		open     int
		done     string
	}{
		"empty":        {time.Time{}, 1, "adopted"},
		"restored":     {noon.Add(-5 * time.Minute), 1, "adopted"},
		"a large one":  {noon.Add(-24 * time.Hour), 200, "adopted"},
		"one was lost": {noon.Add(-5 * time.Second), 1, "opened"},
		"many were":    {noon.Add(time.Hour), 200, "opened"},
	} {
		t.Run(name, func(t *testing.T) {
			s, n, v := sqlite(t), someNames(map[string]*model.HandlerSpec{}), &seenOpen{}
			n.chunk.Handlers = []string{"pager"}
			o := Options{Store: s, Names: n, Routing: RoutingOptions{Present: v.present}}
			if !row.attended.IsZero() {
				if err := s.RecordAlive(t.Context(), row.attended); err != nil {
					t.Fatal(err)
				}
			}
			for i := range row.open {
				v.opens(model.NodeID(10+i), fmt.Sprintf("lost%d", i))
			}
			r := run(t, o, v.compared(5))
			r.Emit([]event.Transition{otherPartition(6)})
			r.recorded(pos(6))
			if n := missedOf(r, row.done); n != float64(row.open) {
				t.Errorf("%v are %s, want %d", n, row.done, row.open)
			}
			list, err := s.Deliveries(t.Context(), "lost0")
			if err != nil || len(list) != 1 || (list[0].State == history.Withheld) != (row.done == "adopted") {
				t.Errorf("%+v, %v", list, err)
			}
			r.stop()
			r = run(t, o, v.compared(6))
			r.Emit([]event.Transition{otherPartition(7)})
			r.recorded(pos(7))
			if n := missedOf(r, "opened") + missedOf(r, "adopted"); n != 0 {
				t.Errorf("%v more at the next start", n)
			}
		})
	}
}

// That history is there is noted at the start and again and again while it is idle, but not while it has to make up
// for what it missed: the next server could not tell that any more. What waits to be recorded, it has not.
func TestHistoryErrorsAreRetried(t *testing.T) {
	s, v := sqlite(t), &seenOpen{}
	now := noon
	r := New(Options{Store: s, Names: someNames(nil), Routing: RoutingOptions{Present: v.present}, Now: func() time.Time { return now }})
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
	is("it is there", noon)
	now = now.Add(aliveInterval - time.Second)
	is("not that often", noon)
	now = now.Add(time.Second)
	is("later", now)
	waits := opening("p1", 1)
	waits.Received = now.Add(-time.Second).UnixNano()
	r.Emit([]event.Transition{waits})
	now = now.Add(aliveInterval)
	is("something waits", time.Unix(0, waits.Received).UTC())
}

// What was withheld, is silenced or waits for its group is known: it is not told as lost.
func TestHeldProblemsAreNotMissing(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": onCall(), "quiet": &model.SilenceSpec{Reason: "known"}})
	p.opens("p1", 10, model.Critical, model.High)
	if err := p.store.Record(t.Context(), history.Batch{Opened: []history.Problem{{Problem: *p.open["p1"], Namespace: "default", Node: "web01", SourceName: "disk"}}}); err != nil {
		t.Fatal(err)
	}
	v := &seenOpen{}
	v.opens(10, "p1")
	r := New(Options{Store: p.store, Names: p.names, Routing: RoutingOptions{Table: p.table, Present: v.present}})
	if err := r.Load(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r.Compare(pos(1), v.eachOpen)
	if len(r.reconciliation.opened)+len(r.reconciliation.closed) != 0 {
		t.Errorf("%+v", r.reconciliation)
	}
}

// In a group, the message says how many of it are told late; and after a restart, too.
func TestLateProblemOfAGroup(t *testing.T) {
	p := newPlay(t, map[string]model.Spec{"default": pages("pager", nil)})
	var sent []history.Delivery
	p.store.record = func(b history.Batch) error {
		sent = append(sent, b.Deliveries...)
		return nil
	}
	p.opens("p1", 10, model.Critical, model.High)
	p.open["p2"] = &model.Problem{ID: "p2", NodeID: 11, Source: model.CheckSource(1001), Chunk: 3, Status: model.Critical, Severity: model.High, Opened: p.now.Add(-time.Hour)}
	change := p.changeOf(event.ProblemOpened, "p2", nil)
	change.late = true
	p.record(func(o *deliveryBatch) error { return p.r.apply(o, change) })
	p.script(`restart; after 1m; expect pager summary p1+p2`)
	if n, err := handler.Decode(sent[0].Payload); err != nil || !strings.HasSuffix(n.Output, "\nlate: 1 of them opened from 2026-03-01T11:00:00Z on; the server recovered them at its start") {
		t.Errorf("%+v, %v", n, err)
	}
}
