package stage

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/spine"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/queue"
)

// view is the event view alone: it is fed with commits that were never on a disk, and what
// it has applied is acknowledged.
func (d *Driven) view(ctx context.Context, fleet *spine.Fleet) error {
	queues := &queue.Registry{}
	v := event.New(shard.New(shard.Options{Definitions: fleet.Definition, Workers: runtime.GOMAXPROCS(0), Registerer: d.metric, Queues: queues}),
		event.Options{Registerer: d.metric, Queues: queues})
	f := newFeed(v)
	life, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = v.Run(life) })
	running.Go(func() { f.deliver(life) })
	running.Go(func() { f.answer(life) })
	d.end(func() error { stop(); running.Wait(); return nil })
	d.config.Stage, d.config.Before = newEntries(fleet, f), load.InProcess(v)
	return began(ctx, f)
}

// feed makes commits as the journal does: of all that waits, after the same linger, no larger
// and as bounded. deliver hands them to the view, answer tells who waited once they are
// applied. mu guards what is above answers.
type feed struct {
	view  *event.View
	began time.Time

	mu    sync.Mutex
	room  chan struct{} // closed when there is room again; nil: nobody waits for it
	next  *commit       // what waits to be delivered
	wake  chan struct{} // capacity 1
	full  chan struct{} // capacity 1
	spare sync.Pool     // *commit

	answers chan *commit // delivered, in order
}

func newFeed(v *event.View) *feed {
	f := &feed{view: v, began: time.Now(), wake: make(chan struct{}, 1), full: make(chan struct{}, 1), answers: make(chan *commit, 64)}
	f.spare.New = func() any { return &commit{feed: f} }
	f.next = f.spare.Get().(*commit)
	return f
}

// Append implements appender. It waits while too much waits.
func (f *feed) Append(ctx context.Context, entries ...journal.Entry) error {
	for i := range entries {
		if err := f.append(ctx, &entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *feed) append(ctx context.Context, e *journal.Entry) error {
	f.mu.Lock()
	for len(f.next.data) > 0 && len(f.next.data)+len(e.Data) > journal.DefaultQueueBytes {
		if f.room == nil {
			f.room = make(chan struct{})
		}
		room := f.room
		f.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
		f.mu.Lock()
	}
	f.next.add(e)
	full := len(f.next.data) >= journal.DefaultMaxCommit
	f.mu.Unlock()
	token(f.wake)
	if full {
		token(f.full)
	}
	return nil
}

func token(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// deliver makes commits until ctx ends.
func (f *feed) deliver(ctx context.Context) {
	linger := time.NewTimer(0)
	defer linger.Stop()
	for number := uint64(1); ; number++ {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		linger.Reset(5 * time.Millisecond)
		select {
		case <-linger.C:
		case <-f.full:
		}
		f.mu.Lock()
		c := f.next
		f.next = f.spare.Get().(*commit)
		if f.room != nil {
			close(f.room)
			f.room = nil
		}
		f.mu.Unlock()
		if len(c.data) == 0 { // it left with the one before
			f.spare.Put(c)
			number--
			continue
		}
		c.at = journal.Position{Log: 1, Number: number}
		c.received, c.listening = time.Now().UnixNano(), time.Since(f.began)
		c.Retain()
		f.view.Deliver(c)
		select {
		case f.answers <- c:
		case <-ctx.Done():
			return
		}
	}
}

// answer tells who waited for a commit that it is applied.
func (f *feed) answer(ctx context.Context) {
	for {
		select {
		case c := <-f.answers:
			if f.view.WaitApplied(ctx, c.at) != nil {
				return
			}
			for _, w := range c.waiters {
				w.waiter.Committed(w.token, c.at, nil)
			}
			c.Release()
		case <-ctx.Done():
			return
		}
	}
}

// commit implements journal.Commit in memory.
type commit struct {
	feed      *feed
	at        journal.Position
	received  int64
	listening time.Duration
	data      []byte
	entries   [journal.All + 1][]span
	sections  []journal.Section
	waiters   []waiter
	users     atomic.Int32
}

// span is an entry's place in data.
type span struct{ from, to int }

type waiter struct {
	waiter journal.Waiter
	token  uint64
}

func (c *commit) add(e *journal.Entry) {
	from := len(c.data)
	c.data = append(c.data, e.Data...)
	if len(c.entries[e.Section]) == 0 {
		i, _ := slices.BinarySearch(c.sections, e.Section)
		c.sections = slices.Insert(c.sections, i, e.Section)
	}
	c.entries[e.Section] = append(c.entries[e.Section], span{from, len(c.data)})
	if e.Waiter != nil {
		c.waiters = append(c.waiters, waiter{e.Waiter, e.Token})
	}
}

func (c *commit) Position() journal.Position  { return c.at }
func (c *commit) Received() int64             { return c.received }
func (c *commit) Listening() time.Duration    { return c.listening }
func (c *commit) Sections() []journal.Section { return c.sections }

func (c *commit) Entries(s journal.Section, fn func(data []byte) error) error {
	for _, e := range c.entries[s] {
		if err := fn(c.data[e.from:e.to]); err != nil {
			return err
		}
	}
	return nil
}

func (c *commit) Retain() { c.users.Add(1) }

// Release gives the last user's commit back, to be another one.
func (c *commit) Release() {
	if c.users.Add(-1) > 0 {
		return
	}
	for _, s := range c.sections {
		c.entries[s] = c.entries[s][:0]
	}
	clear(c.waiters)
	c.data, c.sections, c.waiters = c.data[:0], c.sections[:0], c.waiters[:0]
	c.feed.spare.Put(c)
}
