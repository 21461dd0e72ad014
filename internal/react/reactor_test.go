package react

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
)

func TestOnSQLite(t *testing.T) {
	t.Run("a problem is told", func(t *testing.T) { problemIsTold(t, sqlite(t)) })
	seeds := 10
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("lives and deaths, seed ", seed), func(t *testing.T) { livesAndDeaths(t, seed, sqlite(t)) })
	}
}

func TestOnPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	t.Run("a problem is told", func(t *testing.T) { problemIsTold(t, openStore(t, server.Database(t))) })
	for seed := range 2 {
		t.Run(fmt.Sprint("lives and deaths, seed ", seed), func(t *testing.T) {
			livesAndDeaths(t, seed, openStore(t, server.Database(t)))
		})
	}
}

// A problem that opens and closes is told in this order, with names that last.
func problemIsTold(t *testing.T, s *hooked) {
	spec, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"pager": spec})
	r := run(t, Options{Store: s, Names: n})
	r.Emit([]event.Transition{opening("p1", 4)})
	first := receive(t, "opening", got)
	n.mu.Lock()
	n.gone = true // the node is deleted: that is why the problem ends
	n.mu.Unlock()
	r.Emit([]event.Transition{closing("p1", 5)})
	second := receive(t, "closing", got)
	if first.key != "p1/opened/default/pager" || second.key != "p1/closed/default/pager" {
		t.Errorf("keys %q, %q", first.key, second.key)
	}
	if !strings.Contains(second.body, `"node":"web01"`) || !strings.Contains(second.body, `"check":"disk"`) {
		t.Errorf("the name of what is gone: %s", second.body)
	}
	for range 2 {
		if a := receive(t, "attempt", s.tried); a.State != history.Delivered {
			t.Errorf("attempt: %+v", a)
		}
	}
	p, err := s.Problem(t.Context(), "p1")
	if err != nil || p.Closed.IsZero() {
		t.Errorf("problem: %+v, %v", p, err)
	}
}

// After a restart under another incarnation the replay brings again what history has,
// under positions that look new; and history may know what this life never had.
func TestAnotherLifeOfTheJournal(t *testing.T) {
	s := sqlite(t)
	record := func(places map[model.Partition]history.Place) {
		t.Helper()
		if err := s.Record(t.Context(), history.Batch{Places: places}); err != nil {
			t.Fatal(err)
		}
	}
	record(map[model.Partition]history.Place{1: {At: pos(10), Index: 1}, 2: {At: pos(99)}, 3: {At: journal.Position{Log: 77, Number: 5}}})
	shared := func(p journal.Position) journal.Position { // the life before was copied at commit 20
		if p.Log != 9 {
			return journal.Position{}
		}
		return journal.Position{Log: 10, Number: min(p.Number, 20)}
	}
	o := Options{Store: s, Names: someNames(nil), Retention: 100 * 365 * 24 * time.Hour}
	r := New(o)
	if err := r.Load(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	var all, fresh []event.Transition
	for _, c := range []struct {
		p      model.Partition
		commit uint64
		index  uint32
		fresh  bool
	}{
		{1, 9, 7, false}, {1, 10, 1, false}, {1, 10, 2, true}, {1, 11, 0, true},
		{2, 20, 7, false}, {2, 21, 0, true}, // commit 21 of the former life was another one
		{3, 1, 0, true}, {4, 1, 0, true},
	} {
		x := changed(c.p, c.commit, c.index)
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
	(&running{Reactor: r, t: t}).recorded(journal.Position{Log: 10, Number: 100})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got, want := outputs(t, s), texts(fresh); !slices.Equal(got, want) {
		t.Errorf("history has %q, want %q", got, want)
	}
}

// Who is told: whom the check names, in its own namespace or in the shared one; else
// whom the node's namespace names, and that is how a silent node is told of.
func TestWhoIsTold(t *testing.T) {
	silence := opening("p1", 1)
	silence.Chunk = model.BuiltinChunk(model.KeepaliveCheck)
	for _, c := range []struct {
		what            string
		t               event.Transition
		owner           model.NamespaceID
		named, defaults []string
		want            []history.HandlerRef
	}{
		{"named", opening("p1", 1), 1, []string{"pager", "shared/mail"}, []string{"other"}, []history.HandlerRef{{Namespace: "default", Name: "pager"}, {Namespace: "shared", Name: "mail"}}},
		{"named by a shared check", opening("p1", 1), 2, []string{"pager"}, nil, []history.HandlerRef{{Namespace: "shared", Name: "pager"}}},
		{"nobody named", opening("p1", 1), 2, nil, []string{"ops", "shared/mail"}, []history.HandlerRef{{Namespace: "default", Name: "ops"}, {Namespace: "shared", Name: "mail"}}},
		{"a silent node", silence, 1, []string{"pager"}, []string{"ops"}, []history.HandlerRef{{Namespace: "default", Name: "ops"}}},
		{"nobody at all", silence, 1, nil, nil, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := someNames(nil)
			n.chunk.Namespace, n.chunk.Handlers, n.defaults = c.owner, c.named, c.defaults
			s := sqlite(t)
			r := run(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: quick}})
			r.Emit([]event.Transition{c.t})
			r.recorded(pos(1))
			all, err := s.Deliveries(t.Context(), "p1")
			var told []history.HandlerRef
			for _, d := range all {
				told = append(told, d.Handler)
			}
			if err != nil || !slices.Equal(told, c.want) {
				t.Errorf("told %v, %v; want %v", told, err, c.want)
			}
		})
	}
}

// stream is what the view would emit: several transitions of some commits.
func stream(p model.Partition, commits int, rnd *rand.Rand) (ts []event.Transition) {
	for c := range commits {
		for i := range rnd.IntN(3) {
			ts = append(ts, changed(p, uint64(c+1), uint32(i)))
		}
	}
	return ts
}

func outputs(t testing.TB, s history.Store) (list []string) {
	t.Helper()
	entries, err := s.Entries(context.Background(), history.EntryQuery{Limit: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Output)
	}
	slices.Sort(list)
	return list
}

func texts(streams ...[]event.Transition) (list []string) {
	for _, ts := range streams {
		for _, x := range ts {
			list = append(list, x.Output)
		}
	}
	slices.Sort(list)
	return list
}

// Whatever the store does and however often the process dies, after the view emitted
// everything again from some point at or before the places, history has it all once.
func livesAndDeaths(t *testing.T, seed int, s *hooked) {
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	streams := [][]event.Transition{stream(1, 40, rnd), stream(2, 40, rnd)}
	died := errors.New("the connection is lost")
	var calls atomic.Int64
	flaky := rand.New(rand.NewPCG(uint64(seed), 2)) // used by one goroutine at a time
	s.record = func(history.Batch) error {
		if calls.Add(1); flaky.IntN(5) == 0 {
			return died // nothing was written
		}
		return nil
	}
	s.failed = func(history.Batch) error {
		if flaky.IntN(5) == 0 {
			return died // all was written, but we do not know
		}
		return nil
	}
	lives := 4
	for life := range lives {
		r := run(t, Options{Store: s, Names: someNames(nil), Batches: BatchOptions{Size: 1 + rnd.IntN(10)}})
		places, err := s.Places(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, ts := range streams {
			// The view was restored from a snapshot at or before the place.
			from := 0
			if at := places[model.Partition(i+1)].At.Number; at > 0 {
				from = rnd.IntN(int(at))
			}
			for _, x := range ts {
				if life < lives-1 && rnd.IntN(len(ts)) == 0 {
					break // it dies before the rest
				}
				if x.At.Number > uint64(from) {
					r.Emit([]event.Transition{x})
				}
			}
		}
		if life == lives-1 {
			r.recorded(pos(40))
		}
		r.stop()
	}
	if got, want := outputs(t, s), texts(streams...); !slices.Equal(got, want) {
		t.Errorf("recorded %v\nwant %v", got, want)
	}
}

// A store that stalls delays nothing but itself: Emit returns, what does not fit is
// made again from the journal.
func TestAStallingStoreLosesNothing(t *testing.T) {
	s := sqlite(t)
	stalled, resume := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	s.record = func(history.Batch) error {
		if once.CompareAndSwap(false, true) {
			close(stalled)
			<-resume
		}
		return nil
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	one, two := stream(1, 300, rnd), stream(2, 300, rnd)
	two = two[:len(two)-5] // quiet at the end
	var queues queue.Registry
	var r *running
	j := &inMemory{commits: map[uint64][]event.Transition{}, head: 300}
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
		case 2: // the view goes on meanwhile, and what does not fit is dropped
			emit(stream(1, 500, rnd), 300)
		case 5: // near the head, more comes than fits
			emit(stream(1, 500, rnd), 800)
		case 6: // as many as fit: they wait until this read has ended
			emit(stream(1, 10, rnd), 1300)
			r.Emit([]event.Transition{changed(1, 300, 0)}) // a worker that is late
		}
		return nil
	}
	r = run(t, Options{Store: s, Names: someNames(nil), Batches: BatchOptions{Capacity: 50 * 265, Size: 20}, Rederive: j.beginPass, Queues: &queues, Journal: j})
	for i := 0; i < max(len(one), len(two)); i++ {
		if i < len(one) {
			r.Emit(one[i : i+1])
		}
		if i < len(two) {
			r.Emit(two[i : i+1])
		}
		if i == 0 {
			receive(t, "stall", stalled)
		}
	}
	info := infoOf(t, &queues, "reactions")
	if info.Depth <= info.Capacity*9/10 || info.Depth > info.Capacity || info.Overflow == 0 || info.Policy != queue.Rederive {
		t.Errorf("queue: %+v", info)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if r.Recorded(ended, pos(300)) == nil || r.Recorded(ended, pos(0)) != nil {
		t.Error("a snapshot at 300 must wait, one before all must not")
	}
	if l := r.Lag(); l.Age == 0 || !l.Again || l.Commits < 299 || l.Bytes != int64(l.Commits) || l.Changes == 0 {
		t.Errorf("lag: %+v", l)
	}
	close(resume)
	testenv.Until(t, "all is recorded", func() bool { return r.Lag() == (Lag{}) })
	r.recorded(pos(1400))
	if calls != 6 {
		t.Errorf("the journal was read %d times", calls)
	}
	if got, want := outputs(t, s), texts(one, two); !slices.Equal(got, want) {
		t.Errorf("%d recorded, want %d", len(got), len(want))
	}
}

// inMemory is a journal of transitions. It is read by one goroutine at a time.
type inMemory struct {
	mu      sync.Mutex
	commits map[uint64][]event.Transition
	head    uint64
	reading func() error // at the begin of each read
}

func (j *inMemory) add(ts ...event.Transition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, x := range ts {
		j.commits[x.At.Number] = append(j.commits[x.At.Number], x)
		j.head = max(j.head, x.At.Number)
	}
}

func (j *inMemory) Head() journal.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return pos(j.head)
}

// SizeAfter counts a byte for each commit.
func (j *inMemory) SizeAfter(p journal.Position) int64 { return int64(j.Head().Number - p.Number) }

func (j *inMemory) beginPass() (Replay, error) { return &reader{j: j}, nil }

// reader reads it from the beginning.
type reader struct {
	j  *inMemory
	at uint64
}

func (x *reader) At() journal.Position { return pos(x.at) }
func (x *reader) Close()               {}
func (x *reader) Read(_ context.Context, fn func(journal.Position, int64, []event.Transition) error) (journal.Position, error) {
	head := x.j.Head()
	if err := x.j.reading(); err != nil {
		return pos(0), err
	}
	for x.at < head.Number {
		x.at++
		x.j.mu.Lock()
		ts := slices.Clone(x.j.commits[x.at])
		x.j.mu.Unlock()
		if err := fn(pos(x.at), noon.UnixNano(), ts); err != nil {
			return pos(0), err
		}
	}
	return head, nil
}

func infoOf(t *testing.T, queues *queue.Registry, name string) queue.Info {
	t.Helper()
	for _, q := range queues.List() {
		if q.Name == name {
			return q
		}
	}
	t.Fatalf("there is no queue %s", name)
	return queue.Info{}
}

// With the policy block the view waits while history stalls: nothing is dropped, and
// before anybody records nothing waits for ever.
func TestABlockingBacklog(t *testing.T) {
	settings, err := queue.ParseSettings([]string{"reactions=block"})
	if err != nil {
		t.Fatal(err)
	}
	queues := queue.NewRegistry(settings)
	s := sqlite(t)
	stalled, resume := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	s.record = func(history.Batch) error {
		if once.CompareAndSwap(false, true) {
			close(stalled)
			<-resume
		}
		return nil
	}
	r := run(t, Options{Store: s, Names: someNames(nil), Batches: BatchOptions{Capacity: 10 * 265, Size: 2}, Queues: queues})
	testenv.Until(t, "somebody records", func() bool {
		r.backlog.mu.Lock()
		defer r.backlog.mu.Unlock()
		return r.backlog.running
	})
	all := stream(1, 100, rand.New(rand.NewPCG(1, 2)))
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		for i := range all {
			r.Emit(all[i : i+1])
		}
	}()
	receive(t, "stall", stalled)
	testenv.Until(t, "full backlog", func() bool { return infoOf(t, queues, "reactions").Overflow > 0 })
	if full := r.Fullness(); full < 0.9 || full > 1 {
		t.Errorf("the backlog is full, and says %g", full)
	}
	select {
	case <-emitted:
		t.Error("the view did not wait")
	default:
	}
	close(resume)
	receive(t, "end of the wait", emitted)
	r.recorded(pos(100))
	if got, want := outputs(t, s), texts(all); !slices.Equal(got, want) {
		t.Errorf("%d recorded, want %d", len(got), len(want))
	}
	if info := infoOf(t, queues, "reactions"); info.Depth != 0 || info.Policy != queue.Block || r.Fullness() != 0 {
		t.Errorf("%+v", info)
	}
}

// Memory is bounded by bytes, whatever the outputs; so is one transaction.
func TestLargeOutputsFillTheBacklog(t *testing.T) {
	b := newBacklog("reactions", 64<<20, nil)
	large := strings.Repeat("x", 1<<20)
	for i := range 200 {
		x := changed(1, uint64(i+1), 0)
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
