package load_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/wire"
)

// eager acknowledges a batch at once, and hands it to the journal a while later, in order;
// what waits when the server is killed is gone. One that hoards keeps it until it is killed: no
// clock decides whether something waits then.
type eager struct {
	journal.Journal
	dead   <-chan struct{}
	hoards bool
	mu     sync.Mutex // held from one append to the next: order
	queue  []journal.Entry
	timer  *time.Timer
}

const eagerFor = 200 * time.Millisecond

func (j *eager) Append(ctx context.Context, entries ...journal.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		if !isBatch(e) { // a session begins: what came before is in the view by then
			j.flushLocked()
			if err := j.Journal.Append(ctx, e); err != nil {
				return err
			}
			continue
		}
		go e.Waiter.Committed(e.Token, j.Head(), nil)
		j.queue = append(j.queue, journal.Entry{Section: e.Section, Data: append([]byte(nil), e.Data...)})
		if j.timer == nil && !j.hoards {
			j.timer = time.AfterFunc(eagerFor, j.flush)
		}
	}
	return nil
}

func (j *eager) flush() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flushLocked()
}

func (j *eager) flushLocked() {
	select {
	case <-j.dead:
	default:
		_ = j.Journal.Append(context.Background(), j.queue...) // an orderly end may have closed it
	}
	j.queue, j.timer = nil, nil
}

func isBatch(e journal.Entry) bool { return e.Data[0] == byte(wire.RecordBatch) && e.Waiter != nil }

// cached says that data is durable while it is in the page cache alone; the first syncs of
// a file, and that of its end, are real.
type cached struct{ disk.FS }

type cachedFile struct {
	disk.File
	syncs atomic.Int64
}

func caching(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return &cachedFile{File: f}, nil
}

func (c cached) Create(name string) (disk.File, error)    { return caching(c.FS.Create(name)) }
func (c cached) OpenWrite(name string) (disk.File, error) { return caching(c.FS.OpenWrite(name)) }

func (f *cachedFile) SyncData() error {
	if f.syncs.Add(1) > 5 {
		return nil
	}
	return f.File.SyncData()
}

func (f *cachedFile) Close() error {
	if err := f.File.SyncData(); err != nil {
		return err
	}
	return f.File.Close()
}

// once does one thing wrong to one batch, which it may replace by any number of them;
// nil: to another one.
type once struct {
	journal.Journal
	change func(node uint32, b *wire.Batch) []*wire.Batch
	mu     sync.Mutex
	done   bool
	always bool
}

func (j *once) Append(ctx context.Context, entries ...journal.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []journal.Entry
	for _, e := range entries {
		out = append(out, j.entry(e)...)
	}
	return j.Journal.Append(ctx, out...)
}

func (j *once) entry(e journal.Entry) []journal.Entry {
	if !isBatch(e) || j.done {
		return []journal.Entry{e}
	}
	var r wire.Record
	var b wire.Batch
	if err := r.Decode(e.Data); err != nil {
		panic(err)
	}
	if err := b.Decode(r.Batch); err != nil {
		panic(err)
	}
	batches := j.change(uint32(r.Node), &b)
	if batches == nil {
		return []journal.Entry{e}
	}
	j.done = !j.always
	var out []journal.Entry
	for _, b := range batches {
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, b))
		if err != nil {
			panic(err)
		}
		out = append(out, journal.Entry{Section: e.Section, Data: append(wire.AppendBatchRecord(nil, r.Node), body...)})
	}
	out[len(out)-1].Waiter, out[len(out)-1].Token = e.Waiter, e.Token
	return out
}

// ahead acknowledges, once, more numbers than are sent in all.
type ahead struct {
	journal.Journal
	mu      sync.Mutex
	batches int
}

func (j *ahead) Append(ctx context.Context, entries ...journal.Entry) error {
	j.mu.Lock()
	for i := range entries {
		if isBatch(entries[i]) {
			if j.batches++; j.batches == 25 {
				entries[i].Token += 10_000 // its low bits are the last number
			}
		}
	}
	j.mu.Unlock()
	return j.Journal.Append(ctx, entries...)
}

// aside lets one result from the middle of a run pass without applying it; when the next one of
// its state comes, between says which batches are applied in place of that one's.
func aside(between func(missed wire.Signal, b *wire.Batch, next wire.Signal) []*wire.Batch) *lie {
	var of uint32
	var missed wire.Signal
	step := 0
	return replaced(true, func(node uint32, b *wire.Batch) []*wire.Batch {
		switch i := middling(b); {
		case i < 0 || step == 2:
			return nil
		case step == 0:
			of, missed, step = node, b.Signals[i], 1
			missed.Body = bytes.Clone(missed.Body)
			b.Signals[i] = wire.Signal{Kind: wire.SignalKeepalive, AtMs: b.NowMs}
			return []*wire.Batch{b}
		}
		i := slices.IndexFunc(b.Signals, func(s wire.Signal) bool { return s.Kind == wire.SignalResult && s.Definition == missed.Definition })
		if node != of || i < 0 {
			return nil
		}
		step = 2
		return between(missed, b, b.Signals[i])
	})
}

// alone is a batch of one result, with a number of the server's own.
func alone(s wire.Signal, like *wire.Batch) *wire.Batch {
	return &wire.Batch{StreamKey: wire.StreamKey{Stream: 77}, First: 1, NowMs: like.NowMs, Signals: []wire.Signal{s}}
}
