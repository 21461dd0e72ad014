package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestDispatcherWithSQLite runs the dispatcher on a SQLite database, and expects no lost event change after
// failures or restarts.
func TestDispatcherWithSQLite(t *testing.T) {
	t.Run("a problem is notified", func(t *testing.T) { testProblemIsNotified(t, openSQLiteStore(t)) })
	seeds := 10
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("restarts, seed ", seed), func(t *testing.T) { testRestartsLoseNothing(t, seed, openSQLiteStore(t)) })
	}
}

// TestDispatcherWithPostgreSQL runs the dispatcher on a PostgreSQL database, and expects no lost event change
// after failures or restarts.
func TestDispatcherWithPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	t.Run("a problem is notified", func(t *testing.T) { testProblemIsNotified(t, openTestStore(t, server.Database(t))) })
	for seed := range 2 {
		t.Run(fmt.Sprint("restarts, seed ", seed), func(t *testing.T) {
			testRestartsLoseNothing(t, seed, openTestStore(t, server.Database(t)))
		})
	}
}

// testProblemIsNotified opens and closes a problem, and expects a message about each, in order. The second has the
// node's name even after the deletion of the node.
func testProblemIsNotified(t *testing.T, s *testStore) {
	n, got := newWebhookDirectory(t, "pager", nil)
	r := startDispatcher(t, Options{Store: s, Names: n})
	r.Emit([]event.Transition{openingTransition("p1", 4)})
	first := receiveFrom(t, "opening", got)
	n.change(func() { n.gone = true }) // the deletion of the node ends the problem
	r.Emit([]event.Transition{closingTransition("p1", 5)})
	second := receiveFrom(t, "closing", got)
	if first.key != "p1/opened/default/pager" || second.key != "p1/closed/default/pager" {
		t.Errorf("keys %q, %q", first.key, second.key)
	}
	if !strings.Contains(second.body, `"node":"web01"`) || !strings.Contains(second.body, `"check":"disk"`) {
		t.Errorf("the name of what is gone: %s", second.body)
	}
	for range 2 {
		s.expectAttempt(t, history.Delivered)
	}
	p, err := s.Problem(t.Context(), "p1")
	if err != nil || p.Closed.IsZero() {
		t.Errorf("problem: %+v, %v", p, err)
	}
}

// TestReplayOfARestoredJournalRecordsNothingTwice replays a journal that was restored from a backup, and
// expects no duplicate row in history. History then has each event change once. History may also have
// transitions that the copy lacks.
func TestReplayOfARestoredJournalRecordsNothingTwice(t *testing.T) {
	s := openSQLiteStore(t)
	record := func(places map[model.Partition]history.ChangePosition) {
		t.Helper()
		testenv.NoError(t, s.Record(t.Context(), history.Batch{Places: places}))
	}
	record(map[model.Partition]history.ChangePosition{1: {At: positionAt(10), Index: 1}, 2: {At: positionAt(99)}, 3: {At: journal.Position{Log: 77, Number: 5}}})
	shared := func(p journal.Position) journal.Position { // the copy was made at commit 20
		if p.Log != 9 {
			return journal.Position{}
		}
		return journal.Position{Log: 10, Number: min(p.Number, 20)}
	}
	o := Options{Store: s, Names: newTestDirectory(nil), Retention: 100 * 365 * 24 * time.Hour}
	r := New(o)
	testenv.NoError(t, r.Load(t.Context(), shared))
	var all, fresh []event.Transition
	for _, c := range []struct {
		p      model.Partition
		commit uint64
		index  uint32
		fresh  bool
	}{
		{1, 9, 7, false}, {1, 10, 1, false}, {1, 10, 2, true}, {1, 11, 0, true},
		{2, 20, 7, false}, {2, 21, 0, true}, // commit 21 differs from commit 21 before the copy was restored
		{3, 1, 0, true}, {4, 1, 0, true},
	} {
		x := statusTransition(c.p, c.commit, c.index)
		x.At.Log = 10
		all = append(all, x)
		if c.fresh {
			fresh = append(fresh, x)
		}
	}
	r.Emit(all)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	(&runningDispatcher{Dispatcher: r, t: t}).waitRecorded(journal.Position{Log: 10, Number: 100})
	cancel()
	testenv.NoError(t, <-ended)
	if got, want := recordedOutputs(t, s), outputsOf(fresh); !slices.Equal(got, want) {
		t.Errorf("history has %q, want %q", got, want)
	}
}

// TestHandlersOfAProblem expects the handlers of the check, or else of the namespace, to be notified of a problem. If
// the check names none, the handlers of the node's namespace are notified. A keepalive names none.
func TestHandlersOfAProblem(t *testing.T) {
	silence := openingTransition("p1", 1)
	silence.Definition = model.BuiltinDefinitionID(model.KeepaliveCheck)
	for _, c := range []struct {
		what            string
		t               event.Transition
		owner           model.NamespaceID
		named, defaults []string
		want            []history.HandlerRef
	}{
		{"named", openingTransition("p1", 1), 1, []string{"pager", "shared/mail"}, []string{"other"}, []history.HandlerRef{{Namespace: "default", Name: "pager"}, {Namespace: "shared", Name: "mail"}}},
		{"named by a shared check", openingTransition("p1", 1), 2, []string{"pager"}, nil, []history.HandlerRef{{Namespace: "shared", Name: "pager"}}},
		{"nobody named", openingTransition("p1", 1), 2, nil, []string{"ops", "shared/mail"}, []history.HandlerRef{{Namespace: "default", Name: "ops"}, {Namespace: "shared", Name: "mail"}}},
		{"a silent node", silence, 1, []string{"pager"}, []string{"ops"}, []history.HandlerRef{{Namespace: "default", Name: "ops"}}},
		{"nobody at all", silence, 1, nil, nil, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := newTestDirectory(nil)
			n.definition.Namespace, n.definition.Handlers, n.defaults = c.owner, c.named, c.defaults
			s := openSQLiteStore(t)
			r := startDispatcher(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: fastRetry}})
			r.Emit([]event.Transition{c.t})
			r.waitRecorded(positionAt(1))
			all, err := s.Deliveries(t.Context(), "p1")
			var notified []history.HandlerRef
			for _, d := range all {
				notified = append(notified, d.Handler)
			}
			if err != nil || !slices.Equal(notified, c.want) {
				t.Errorf("notified %v, %v; want %v", notified, err, c.want)
			}
		})
	}
}

// randomTransitions returns up to two event changes for each of a number of journal commits.
func randomTransitions(p model.Partition, commits int, rnd *rand.Rand) (ts []event.Transition) {
	for c := range commits {
		for i := range rnd.IntN(3) {
			ts = append(ts, statusTransition(p, uint64(c+1), uint32(i)))
		}
	}
	return ts
}

// recordedOutputs returns the check outputs in all entries of the history database, sorted.
func recordedOutputs(t testing.TB, s history.Store) (list []string) {
	t.Helper()
	entries, err := s.Entries(context.Background(), history.EntryQuery{Limit: 100_000})
	testenv.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Output)
	}
	slices.Sort(list)
	return list
}

// outputsOf returns the check outputs of event changes, sorted.
func outputsOf(streams ...[]event.Transition) (list []string) {
	for _, ts := range streams {
		for _, x := range ts {
			list = append(list, x.Output)
		}
	}
	slices.Sort(list)
	return list
}

// testRestartsLoseNothing restarts the dispatcher under random database errors, and expects every event change exactly
// once. The dispatcher restarts at earlier positions.
func testRestartsLoseNothing(t *testing.T, seed int, s *testStore) {
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	streams := [][]event.Transition{randomTransitions(1, 40, rnd), randomTransitions(2, 40, rnd)}
	died := errors.New("the connection is lost")
	var calls atomic.Int64
	flaky := rand.New(rand.NewPCG(uint64(seed), 2)) // used by one goroutine at a time
	s.beforeRecord = func(history.Batch) error {
		if calls.Add(1); flaky.IntN(5) == 0 {
			return died // without a write
		}
		return nil
	}
	s.afterRecord = func(history.Batch) error {
		if flaky.IntN(5) == 0 {
			return died // after a complete write
		}
		return nil
	}
	lives := 4
	for life := range lives {
		r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(nil), Batches: BatchOptions{Size: 1 + rnd.IntN(10)}})
		places, err := s.Positions(t.Context())
		testenv.NoError(t, err)
		for i, ts := range streams {
			// The view was restored from a snapshot at or before the place.
			from := 0
			if at := places[model.Partition(i+1)].At.Number; at > 0 {
				from = rnd.IntN(int(at))
			}
			for _, x := range ts {
				if life < lives-1 && rnd.IntN(len(ts)) == 0 {
					break // the process dies before the rest is emitted
				}
				if x.At.Number > uint64(from) {
					r.Emit([]event.Transition{x})
				}
			}
		}
		if life == lives-1 {
			r.waitRecorded(positionAt(40))
		}
		r.stop()
	}
	if got, want := recordedOutputs(t, s), outputsOf(streams...); !slices.Equal(got, want) {
		t.Errorf("recorded %v\nwant %v", got, want)
	}
}

// TestStalledStoreLosesNoTransition overflows the queue while the database hangs, and expects no lost event change.
// The dropped changes are computed again from the journal.
func TestStalledStoreLosesNoTransition(t *testing.T) {
	s := openSQLiteStore(t)
	stalled, resume := s.stallFirstWrite()
	rnd := rand.New(rand.NewPCG(1, 1))
	one, two := randomTransitions(1, 300, rnd), randomTransitions(2, 300, rnd)
	two = two[:len(two)-5] // the last commits change no state in partition 2
	var queues queue.Registry
	var r *runningDispatcher
	j := &memoryJournal{commits: map[uint64][]event.Transition{}, head: 300}
	j.add(one...)
	j.add(two...)
	calls := 0
	emit := func(ts []event.Transition, after uint64) {
		for i := range ts {
			ts[i].At.Number += after
		}
		one = append(one, ts...)
		j.add(ts...)
		r.Emit(ts)
	}
	j.reading = func() error {
		switch calls++; calls {
		case 1:
			return errors.New("the segment is being closed")
		case 2: // the view goes on, and drops transitions that do not fit
			emit(randomTransitions(1, 500, rnd), 300)
		case 5: // near the head the view emits more than fits
			emit(randomTransitions(1, 500, rnd), 800)
		case 6: // the view emits as many as fit, which wait for the end of this read
			emit(randomTransitions(1, 10, rnd), 1300)
			r.Emit([]event.Transition{statusTransition(1, 300, 0)}) // a slow worker of the view
		}
		return nil
	}
	r = startDispatcher(t, Options{Store: s, Names: newTestDirectory(nil), Batches: BatchOptions{Capacity: 50 * 265, Size: 20}, Rederive: j.beginReplay, Queues: &queues, Journal: j})
	for i := 0; i < max(len(one), len(two)); i++ {
		if i < len(one) {
			r.Emit(one[i : i+1])
		}
		if i < len(two) {
			r.Emit(two[i : i+1])
		}
		if i == 0 {
			receiveFrom(t, "stall", stalled)
		}
	}
	info := queueInfo(t, &queues, "reactions")
	if info.Depth <= info.Capacity*9/10 || info.Depth > info.Capacity || info.Overflow == 0 || info.Policy != queue.Rederive {
		t.Errorf("queue: %+v", info)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if r.WaitRecorded(ended, positionAt(300)) == nil || r.WaitRecorded(ended, positionAt(0)) != nil {
		t.Error("a snapshot at 300 must wait, one before all must not")
	}
	if l := r.Lag(); l.Age == 0 || !l.Overflowed || l.Commits < 299 || l.Bytes != int64(l.Commits) || l.Changes == 0 {
		t.Errorf("lag: %+v", l)
	}
	close(resume)
	testenv.Until(t, "all is recorded", func() bool { return r.Lag() == (Lag{}) })
	r.waitRecorded(positionAt(1400))
	if calls != 6 {
		t.Errorf("the journal was read %d times", calls)
	}
	if got, want := recordedOutputs(t, s), outputsOf(one, two); !slices.Equal(got, want) {
		t.Errorf("%d recorded, want %d", len(got), len(want))
	}
}

// memoryJournal is a journal of event changes (transitions) in memory. One goroutine reads it at a time.
type memoryJournal struct {
	mu      sync.Mutex
	commits map[uint64][]event.Transition
	head    uint64
	reading func() error // is called at the start of each read
}

// add stores event changes by the number of the commit in their journal positions.
func (j *memoryJournal) add(ts ...event.Transition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, x := range ts {
		j.commits[x.At.Number] = append(j.commits[x.At.Number], x)
		j.head = max(j.head, x.At.Number)
	}
}

// Head returns the position of the last commit.
func (j *memoryJournal) Head() journal.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return positionAt(j.head)
}

// SizeAfter returns the number of commits after a position, because the test counts one byte per commit. The
// tests count each commit as one byte.
func (j *memoryJournal) SizeAfter(p journal.Position) int64 { return int64(j.Head().Number - p.Number) }

// beginReplay returns a Replay that reads the test journal from its start.
func (j *memoryJournal) beginReplay() (Replay, error) { return &memoryReader{j: j}, nil }

// memoryReader reads a memoryJournal (the test's journal in memory) from its start.
type memoryReader struct {
	j  *memoryJournal
	at uint64
}

// At returns the journal position up to which the reader has read.
func (x *memoryReader) At() journal.Position { return positionAt(x.at) }

// Close does nothing, because the reader holds no resources
func (x *memoryReader) Close() {}

// Read calls fn with the event changes of each commit up to the journal's head.
func (x *memoryReader) Read(_ context.Context, fn func(journal.Position, int64, []event.Transition) error) (journal.Position, error) {
	head := x.j.Head()
	if err := x.j.reading(); err != nil {
		return positionAt(0), err
	}
	for x.at < head.Number {
		x.at++
		x.j.mu.Lock()
		ts := slices.Clone(x.j.commits[x.at])
		x.j.mu.Unlock()
		if err := fn(positionAt(x.at), testTime.UnixNano(), ts); err != nil {
			return positionAt(0), err
		}
	}
	return head, nil
}

// queueInfo returns the fill level and other statistics of the queue with the given name.
func queueInfo(t *testing.T, queues *queue.Registry, name string) queue.Info {
	t.Helper()
	for _, q := range queues.List() {
		if q.Name == name {
			return q
		}
	}
	t.Fatalf("there is no queue %s", name)
	return queue.Info{}
}

// TestBlockingQueueLosesNoTransition hangs the writes of history with queue policy "block", and expects no dropped
// event change. The queue lets the workers that add event changes (transitions) wait. It does not wait before a
// consumer runs.
func TestBlockingQueueLosesNoTransition(t *testing.T) {
	settings, err := queue.ParseSettings([]string{"reactions=block"})
	testenv.NoError(t, err)
	queues := queue.NewRegistry(settings)
	s := openSQLiteStore(t)
	stalled, resume := s.stallFirstWrite()
	r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(nil), Batches: BatchOptions{Capacity: 10 * 265, Size: 2}, Queues: queues})
	testenv.Until(t, "somebody records", func() bool {
		r.backlog.mu.Lock()
		defer r.backlog.mu.Unlock()
		return r.backlog.running
	})
	all := randomTransitions(1, 100, rand.New(rand.NewPCG(1, 2)))
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		for i := range all {
			r.Emit(all[i : i+1])
		}
	}()
	receiveFrom(t, "stall", stalled)
	testenv.Until(t, "full backlog", func() bool { return queueInfo(t, queues, "reactions").Overflow > 0 })
	if full := r.Fullness(); full < 0.9 || full > 1 {
		t.Errorf("the backlog is full, and says %g", full)
	}
	select {
	case <-emitted:
		t.Error("the view did not wait")
	default:
	}
	close(resume)
	receiveFrom(t, "end of the wait", emitted)
	r.waitRecorded(positionAt(100))
	if got, want := recordedOutputs(t, s), outputsOf(all); !slices.Equal(got, want) {
		t.Errorf("%d recorded, want %d", len(got), len(want))
	}
	if info := queueInfo(t, queues, "reactions"); info.Depth != 0 || info.Policy != queue.Block || r.Fullness() != 0 {
		t.Errorf("%+v", info)
	}
}

// TestTransitionQueueIsBoundedInBytes fills the queue of event changes, and expects the queue to stay within its byte limit.
// Each transaction must stay within a limit, too.
func TestTransitionQueueIsBoundedInBytes(t *testing.T) {
	b := newTransitionQueue("reactions", 64<<20, nil)
	large := strings.Repeat("x", 1<<20)
	for i := range 200 {
		x := statusTransition(1, uint64(i+1), 0)
		x.Output = large
		b.add([]event.Transition{x})
	}
	if b.n < 60 || b.n > 64 || !b.lag.on || b.bytes > 64<<20 {
		t.Errorf("%d wait, %d bytes, lag %v", b.n, b.bytes, b.lag.on)
	}
	for left := b.n; left > 0; left = b.n {
		ts := b.takeBatch(2000)
		if len(ts) == 0 || len(ts) > batchBytes>>20 {
			t.Fatalf("one batch takes %d", len(ts))
		}
		b.release(ts)
	}
	if b.bytes != 0 {
		t.Errorf("%d bytes are left", b.bytes)
	}
}

// TestFirstTransitionIsRecordedAtOnce emits event changes after a quiet time, and expects an immediate write of the
// first. The next changes share a transaction.
func TestFirstTransitionIsRecordedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		since time.Duration // time since the last transaction
		kinds []event.TransitionKind
		want  time.Duration
	}{
		{"after a silence", time.Second, []event.TransitionKind{event.StatusChanged}, 0},
		{"one of many", 10 * time.Millisecond, []event.TransitionKind{event.StatusChanged}, 240 * time.Millisecond},
		{"a full batch", 10 * time.Millisecond, slices.Repeat([]event.TransitionKind{event.StatusChanged}, 100), 0},
		{"a problem", 10 * time.Millisecond, []event.TransitionKind{event.ProblemOpened}, 40 * time.Millisecond},
		{"a problem after others", 60 * time.Millisecond, []event.TransitionKind{event.StatusChanged, event.ProblemOpened}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Options{Batches: BatchOptions{Gather: 250 * time.Millisecond, GatherOpened: 50 * time.Millisecond, Size: 100}})
				last := time.Now()
				time.Sleep(tt.since)
				began := time.Now()
				for _, kind := range tt.kinds {
					t := statusTransition(1, 1, 0)
					t.Kind = kind
					r.Emit([]event.Transition{t})
				}
				testenv.NoError(t, r.gatherBatch(t.Context(), last))
				if got := time.Since(began); got != tt.want {
					t.Errorf("waited %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestOpenedProblemShortensTheWaitForABatch opens a problem during the wait for more event changes, and expects an
// earlier write.
func TestOpenedProblemShortensTheWaitForABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Batches: BatchOptions{Gather: 250 * time.Millisecond, GatherOpened: 50 * time.Millisecond, Size: 100}})
		last := time.Now()
		emit := func(after time.Duration, kind event.TransitionKind) {
			time.AfterFunc(after, func() {
				t := statusTransition(1, 1, 0)
				t.Kind = kind
				r.Emit([]event.Transition{t})
			})
		}
		waited := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := r.gatherBatch(t.Context(), last); err != nil || time.Since(began) != want {
				t.Errorf("waited %v, want %v, %v", time.Since(began), want, err)
			}
			last = time.Now()
			r.backlog.release(r.backlog.takeBatch(100))
		}
		emit(10*time.Millisecond, event.StatusChanged)
		emit(120*time.Millisecond, event.ProblemOpened)
		waited(120 * time.Millisecond)
		emit(10*time.Millisecond, event.StatusChanged)
		waited(250 * time.Millisecond)
	})
}

// TestWaitForABatchEndsWithItsContext cancels the context of gatherBatch, and expects the wait for event changes to
// end.
func TestWaitForABatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Batches: BatchOptions{Gather: time.Minute, Size: 100}})
		r.Emit([]event.Transition{statusTransition(1, 1, 0)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.gatherBatch(ctx, time.Now()); err == nil {
			t.Error("goes on after its context ended")
		}
	})
}

// TestMissingOpeningLeavesAWithheldDelivery closes a problem whose opening was lost, and expects deliveries
// marked as not sent in history. Each handler gets a recorded delivery with the state withheld, which means not
// sent.
func TestMissingOpeningLeavesAWithheldDelivery(t *testing.T) {
	spec, got := newWebhook(t, nil)
	s, n := openSQLiteStore(t), newTestDirectory(map[string]*model.HandlerSpec{"pager": spec})
	r := startDispatcher(t, Options{Store: s, Names: n})
	r.Emit([]event.Transition{closingTransition("lost", 3), openingTransition("both", 4), closingTransition("both", 5)})
	r.waitRecorded(positionAt(5))
	if m := receiveFrom(t, "message", got); m.key != "both/opened/default/pager" {
		t.Errorf("%+v", m)
	}
	handlers := n.definition.Handlers
	n.definition.Handlers = nil
	r.Emit([]event.Transition{openingTransition("nobody", 6)})
	r.waitRecorded(positionAt(6))
	n.definition.Handlers = handlers
	r.Emit([]event.Transition{closingTransition("nobody", 7)})
	r.waitRecorded(positionAt(7))
	list, err := s.Deliveries(t.Context(), "lost")
	if err != nil || len(list) != 1 || list[0].State != history.Withheld || list[0].Handler.Name != "pager" || list[0].LastError != "history does not have the opening of the problem" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := s.Deliveries(t.Context(), "nobody"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if n := testutil.ToFloat64(r.metrics.unopened); n != 1 {
		t.Errorf("%v problems are counted", n)
	}
}

// TestNotificationGolden compares the notifications of an opened and a closed problem with golden files.
func TestNotificationGolden(t *testing.T) {
	names := newTestDirectory(nil)
	names.unit = testUnit
	for kind, transition := range map[string]event.Transition{"opened": openingTransition("p1", 1), "closed": closingTransition("p1", 61)} {
		p := history.Problem{Problem: *transition.Problem, Namespace: "default", Node: "web01", SourceName: "disk"}
		data, err := newNotification(names, kind, &transition, &p).Encode()
		testenv.NoError(t, err)
		var got bytes.Buffer
		testenv.NoError(t, json.Indent(&got, data, "", "  "))
		got.WriteByte('\n')
		file := filepath.Join("testdata", "notification-"+kind+".json")
		testenv.Golden(t, file, got.Bytes())
	}
}

// TestOtherSourcesAreHandledLikeChecks opens problems of triggers and alert rules, and expects handling as for
// problems of checks. The problem is recorded, routed, silenced and delivered.
func TestOtherSourcesAreHandledLikeChecks(t *testing.T) {
	source := model.Source{Kind: 200, ID: 7, Instance: "/var"}
	names, got := newWebhookDirectory(t, "pager", nil)
	table := route.NewTable()
	set := func(name string, spec model.Spec) {
		t.Helper()
		testenv.NoError(t, table.Apply([]route.Declaration{{Name: route.Name{Namespace: "default", Name: name}, Zone: "UTC", Spec: spec}}))
	}
	at := func(of model.Source) *model.RouteSpec {
		wait := model.Duration(0)
		return &model.RouteSpec{GroupWait: &wait, Match: &model.Selector{Where: `source.kind == "` + of.Kind.String() + `" && source.instance == "` + of.Instance + `"`},
			Steps: []model.RouteStep{{To: []string{"pager"}}}}
	}
	set("other", at(model.Source{Kind: 201, Instance: "/var"}))
	set("rules", at(source))
	set("quiet", &model.SilenceSpec{Selector: model.Selector{Where: `source.name == "rule7" && check == ""`}, Reason: "a test"})

	store := openSQLiteStore(t)
	open := map[string]*model.Problem{}
	present := func(node model.NodeID, of model.Source) *event.Transition {
		if p := open["p"]; p != nil && of == source {
			return stateOf(p, p.Status)
		}
		return nil
	}
	now := testTime.Add(time.Minute)
	r := startDispatcher(t, Options{Store: store, Names: names, Routing: RoutingOptions{Table: table, Present: present}, Now: func() time.Time { return now }})
	opened := openingTransition("p", 1)
	opened.Source, opened.Definition, opened.Problem.Source, opened.Problem.Definition = source, 0, source, 0
	open["p"] = opened.Problem
	status := statusTransition(1, 1, 1)
	status.Source, status.Definition = source, 0
	r.Emit([]event.Transition{opened, status})
	r.waitRecorded(positionAt(1))

	p, err := store.Problem(t.Context(), "p")
	if err != nil || p.Source != source || p.SourceName != "rule7" || p.Node != "web01" {
		t.Fatalf("history has %+v, %v", p, err)
	}
	entries, err := store.Entries(t.Context(), history.EntryQuery{})
	if err != nil || len(entries) != 1 || entries[0].Source != source || entries[0].SourceName != "rule7" {
		t.Fatalf("history has %+v, %v", entries, err)
	}
	if list, err := store.Problems(t.Context(), history.ProblemQuery{Check: "rule7"}); err != nil || len(list) != 0 {
		t.Errorf("found as a check's: %+v, %v", list, err)
	}
	rows, err := store.EscalationsOf(t.Context(), "p")
	if err != nil || len(rows) != 1 || rows[0].Route != "default/rules" || rows[0].Source != source || rows[0].Hold == nil || rows[0].Hold.By.Name != "quiet" {
		t.Fatalf("escalations: %+v, %v", rows, err)
	}
	_ = table.Apply([]route.Declaration{{Kind: "Silence", Name: route.Name{Namespace: "default", Name: "quiet"}}})
	var note handler.Notification
	message := receiveFrom(t, "message", got)
	testenv.NoError(t, json.Unmarshal([]byte(message.body), &note))
	if note.Source != (handler.Source{Source: source, Name: "rule7"}) || note.Check != "" || note.Summary != "CRITICAL: rule7:/var on web01: disk 97% full" {
		t.Errorf("notified %+v", note)
	}
	closed := closingTransition("p", 2)
	closed.Source, closed.Definition, closed.Problem.Source, closed.Problem.Definition = source, 0, source, 0
	delete(open, "p")
	r.Emit([]event.Transition{closed})
	r.waitRecorded(journal.Position{Log: 9, Number: 2})
	if err := json.Unmarshal([]byte(receiveFrom(t, "end", got).body), &note); err != nil || note.Kind != handler.Closed {
		t.Errorf("notified %+v, %v", note, err)
	}
}

// BenchmarkRecord records 2,000 status changes in SQLite, fsync included.
func BenchmarkRecord(b *testing.B) {
	s := openSQLiteStore(b)
	r := startDispatcher(b, Options{Store: s, Names: newTestDirectory(nil)})
	ts := make([]event.Transition, 2000)
	var n uint64
	b.ReportAllocs()
	for b.Loop() {
		for i := range ts {
			n++
			ts[i] = statusTransition(1, n, 0)
		}
		r.Emit(ts)
		r.waitRecorded(positionAt(n))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
}

// BenchmarkEmit measures the time that Emit takes to queue one event change.
func BenchmarkEmit(b *testing.B) {
	backlog := newTransitionQueue("reactions", 131072, nil)
	ts := []event.Transition{statusTransition(1, 1, 0)}
	b.ReportAllocs()
	for b.Loop() {
		backlog.add(ts)
		if backlog.n == 2000 {
			if len(backlog.takeBatch(2000)) != 2000 {
				b.Fatal("not all taken")
			}
		}
	}
}

// TestHistoryKeepsLongOutputsOfOpeningsOnly expects history to store the whole output of a check only at the opening
// of a problem. Other changes store a few KiB.
func TestHistoryKeepsLongOutputsOfOpeningsOnly(t *testing.T) {
	store, long := openSQLiteStore(t), strings.Repeat("é", 100_000)
	r := startDispatcher(t, Options{Store: store, Names: newTestDirectory(nil)})
	opened, status := openingTransition("p", 1), statusTransition(1, 1, 1)
	opened.Problem.Output, opened.Output, status.Output = long, long, long
	r.Emit([]event.Transition{opened, status})
	r.waitRecorded(positionAt(1))
	if p, err := store.Problem(t.Context(), "p"); err != nil || p.Output != long {
		t.Errorf("the problem has %d bytes of output, %v", len(p.Output), err)
	}
	entries, err := store.Entries(t.Context(), history.EntryQuery{})
	if err != nil || len(entries) != 1 || len(entries[0].Output) > history.MaxChangeOutput+len("…") || !strings.HasSuffix(entries[0].Output, "é…") {
		t.Errorf("%d entries, the first with %d bytes of output, %v", len(entries), len(entries[0].Output), err)
	}
}
