package event

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// worker applies commits to the partitions it owns: those whose number modulo the
// count of workers is its own.
type worker struct {
	calendars map[model.ChunkID]window.Set // see pause
	view      *View
	owned     []*partition
	next      []int64  // by owned: a listening time before which nothing is due
	from      []uint64 // by owned: commits up to this number are in its snapshot
	index     [model.Partitions]int16
	queue     *queue.Queue[journal.Commit]
	applied   atomic.Uint64
	underway  bool // a commit has come: everything is restored

	// Of the commit and partition being applied.
	pos       journal.Position
	received  int64 // Unix ns
	listening int64 // ns
	order     uint32
	all       [][]byte // entries of section All

	transitions []Transition
	silent      bool // these transitions were taken before
	tally       [outcomes]uint64
	signals     uint64
	chunks      map[model.ChunkID]*model.Chunk

	// Reused for every record.
	record  wire.Record
	reader  wire.BatchReader
	signal  wire.Signal
	body    wire.Result // of signal
	expired []uint32
	text    []byte
}

// maxCachedChunks bounds the worker's cache of chunks; at the bound it starts anew.
const maxCachedChunks = 1 << 16

func newWorker(v *View, number int) *worker {
	w := &worker{
		view:   v,
		chunks: map[model.ChunkID]*model.Chunk{},
		queue:  queue.New[journal.Commit](v.opts.Queues, fmt.Sprintf("event-view-%d", number), v.opts.QueueCommits, queue.Block),
	}
	for i := range w.index {
		w.index[i] = -1
		if i%v.opts.Workers == number {
			w.index[i] = int16(len(w.owned))
			w.owned = append(w.owned, v.partitions[i])
		}
	}
	w.next = make([]int64, len(w.owned))
	w.from = make([]uint64, len(w.owned))
	return w
}

func (w *worker) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-w.queue.Items():
			err := w.apply(c)
			c.Release()
			if err != nil {
				return err
			}
		}
	}
}

// restored takes note of what Restore brought.
func (w *worker) restored() {
	for i, p := range w.owned {
		w.next[i], w.from[i] = p.deadlines.Next(), p.at.Number
	}
}

// apply brings one commit into the worker's partitions: the entries of each one's
// own section, those of section All, then the deadlines that passed. Every
// partition sees the time of every commit; one without entries and without a
// deadline costs a look at two numbers.
func (w *worker) apply(c journal.Commit) error {
	w.pos, w.received, w.listening = c.Position(), c.Received(), int64(c.Listening())
	if !w.underway {
		w.underway = true
		w.restored()
	}
	if w.pos.Number <= w.applied.Load() {
		return nil // replayed and delivered: the journal's head moves before Deliver
	}
	order, same := w.pos.Compare(w.view.opts.EmitAfter)
	w.silent = w.view.opts.Emit == nil || same && order <= 0
	sections := c.Sections()
	w.all = w.all[:0]
	if n := len(sections); n > 0 && sections[n-1] == journal.All {
		sections = sections[:n-1]
		if err := c.Entries(journal.All, func(data []byte) error {
			w.all = append(w.all, data)
			return nil
		}); err != nil {
			return fmt.Errorf("read commit %d: %w", w.pos.Number, err)
		}
	}
	for _, s := range sections {
		if int(s) >= len(w.index) {
			return fmt.Errorf("read commit %d: section %d is no partition", w.pos.Number, s)
		}
		if i := w.index[s]; i >= 0 && w.pos.Number > w.from[i] {
			if err := w.applyTo(int(i), c, s); err != nil {
				return fmt.Errorf("read commit %d: %w", w.pos.Number, err)
			}
		}
	}
	for i := range w.owned {
		if w.pos.Number <= w.from[i] || w.owned[i].at == w.pos {
			continue
		}
		if len(w.all) > 0 || w.next[i] != 0 && w.next[i] <= w.listening {
			if err := w.applyTo(i, nil, 0); err != nil {
				return err
			}
		}
	}
	w.report()
	w.applied.Store(w.pos.Number)
	w.view.wake()
	return nil
}

// applyTo brings the commit into one partition. c is nil where it has no section of
// its own.
func (w *worker) applyTo(i int, c journal.Commit, s journal.Section) error {
	p := w.owned[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	w.order = 0
	if c != nil {
		if err := c.Entries(s, func(data []byte) error {
			w.entry(p, data)
			return nil
		}); err != nil {
			return err
		}
	}
	for _, data := range w.all {
		w.entry(p, data)
	}
	w.expire(p)
	p.at = w.pos
	w.next[i] = p.deadlines.Next()
	return nil
}

// report hands on what the commit caused and counts it.
func (w *worker) report() {
	m := w.view.metrics
	if w.signals > 0 {
		m.received.Add(float64(w.signals))
		w.signals = 0
		for o, n := range w.tally {
			if n > 0 {
				m.outcomes[o].Add(float64(n))
				w.tally[o] = 0
			}
		}
	}
	if len(w.transitions) > 0 {
		m.transitions.Add(float64(len(w.transitions)))
		w.view.opts.Emit(w.transitions)
		clear(w.transitions)
		w.transitions = w.transitions[:0]
	}
}

// chunk resolves an id, nil for one that nobody knows.
func (w *worker) chunk(id model.ChunkID) *model.Chunk {
	if c, ok := w.chunks[id]; ok {
		return c
	}
	c := model.BuiltinChunkOf(id)
	if c == nil && w.view.opts.Chunks != nil {
		c = w.view.opts.Chunks(id)
	}
	if c != nil {
		if len(w.chunks) == maxCachedChunks {
			clear(w.chunks)
		}
		w.chunks[id] = c
	}
	return c
}
