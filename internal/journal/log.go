package journal

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// Log is a Journal in segment files.
//
// Append copies into the last of the pending batches; the committer (one
// goroutine, committer.go) takes the first, makes a commit of it, writes and syncs
// it (writer.go), publishes the new head, calls Deliver and then the Waiters.
// While it syncs, the next batch fills: that is the group commit.
//
// mu guards everything below it and is never held during a disk operation, a
// Deliver or a Waiter.
type Log struct {
	dir    string
	opts   Options
	lock   io.Closer
	folder *folder

	wake    chan struct{} // capacity 1: there is a batch
	cuts    chan struct{} // capacity 1: a cut may have given room back
	full    chan struct{} // capacity 1: a batch is full: no use in lingering
	closing chan struct{} // closed by Close
	done    chan struct{} // closed by the committer
	commits sync.Pool     // of *commit
	writer  writer        // the committer's alone

	mu       sync.Mutex
	pending  []*batch
	idle     []*batch // for reuse
	space    chan struct{}
	segments []*segment // oldest first, never empty; the last is being written
	head     checkpoint // last durable commit
	cut      uint64     // Cut was called up to here
	closed   bool
	stats    Stats
	passed   uint64 // entries ever queued
	waited   uint64 // Appends that met a full queue
}

var _ Journal = (*Log)(nil)

// maxIdle is how many batches are kept for reuse.
const maxIdle = 3

// Append implements Journal.
func (l *Log) Append(ctx context.Context, entries ...Entry) error {
	raw := 0
	for i := range entries {
		if entries[i].Section > All {
			panic(fmt.Sprintf("BUG: journal section %d", entries[i].Section))
		}
		raw += rawSize(&entries[i])
	}
	if raw > MaxAppend {
		return model.Errorf(model.TooLarge, "append of %d bytes to the journal, at most %d", raw, MaxAppend)
	}
	if len(entries) == 0 {
		return nil
	}
	l.mu.Lock()
	if err := l.waitForSpaceLocked(ctx, int64(raw)); err != nil {
		l.mu.Unlock()
		return err
	}
	b := l.openBatchLocked(raw)
	for i := range entries {
		b.add(&entries[i])
	}
	l.stats.QueuedBytes += int64(raw)
	l.passed += uint64(len(entries))
	full := len(l.pending) > 1
	l.mu.Unlock()
	signal(l.wake)
	if full && l.opts.Linger > 0 {
		signal(l.full)
	}
	return nil
}

func (l *Log) waitForSpaceLocked(ctx context.Context, raw int64) error {
	for waited := false; ; waited = true {
		switch {
		case l.closed:
			return ErrClosed
		case l.stats.QueuedBytes == 0, l.stats.QueuedBytes+raw <= l.opts.QueueBytes:
			return nil
		}
		if !waited {
			l.waited++
		}
		if l.space == nil {
			l.space = make(chan struct{})
		}
		space := l.space
		l.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// openBatchLocked is the batch that takes raw more bytes: the last one, or a new
// one, so that an Append is never split over two commits.
func (l *Log) openBatchLocked(raw int) *batch {
	if n := len(l.pending); n > 0 {
		if b := l.pending[n-1]; b.raw+raw <= l.opts.MaxCommit {
			return b
		}
	}
	var b *batch
	if n := len(l.idle); n > 0 {
		b, l.idle = l.idle[n-1], l.idle[:n-1]
	} else {
		b = &batch{}
	}
	l.pending = append(l.pending, b)
	return b
}

// signal leaves a token in ch, where there is none.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// take returns the next batch, nil where nothing waits.
func (l *Log) take() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return nil
	}
	b := l.pending[0]
	copy(l.pending, l.pending[1:])
	l.pending[len(l.pending)-1] = nil
	l.pending = l.pending[:len(l.pending)-1]
	return b
}

// giveBack makes a batch reusable.
func (l *Log) giveBack(b *batch) {
	b.reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.idle) < maxIdle && cap(b.data) <= 2*l.opts.MaxCommit {
		l.idle = append(l.idle, b)
	}
}

// Head implements Journal.
func (l *Log) Head() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Position{Log: l.folder.incarnation.ID, Number: l.head.number}
}

// Tail implements Journal. In a log that holds nothing it is one above Head.
func (l *Log) Tail() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Position{Log: l.folder.incarnation.ID, Number: l.segments[0].first}
}

// Incarnation implements Journal.
func (l *Log) Incarnation() Incarnation { return l.folder.incarnation }

// Stats implements Journal.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// SizeAfter is how many bytes of the log lie behind a position, to within a few hundred
// kilobytes: what a reader who stands there has still to read.
func (l *Log) SizeAfter(p Position) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := int64(0)
	for _, s := range l.segments {
		switch {
		case s.last <= p.Number:
		case s.first > p.Number:
			size += s.disk
		default:
			at, _ := s.seek(p.Number + 1)
			size += s.disk - at
		}
	}
	return size
}

// Resolve translates a position that was stored under an earlier incarnation into
// the present one's. ErrTrimmed: it names what only the other life of the data has,
// or what another journal wrote.
func (l *Log) Resolve(p Position) (Position, error) {
	return l.folder.resolve(p)
}

func (f *folder) resolve(p Position) (Position, error) {
	now := Position{Log: f.incarnation.ID, Number: p.Number}
	if p.Number == 0 || p.Log == now.Log {
		return now, nil
	}
	for _, a := range f.ancestors {
		if a.ID == p.Log && p.Number <= a.last {
			return now, nil
		}
	}
	return Position{}, ErrTrimmed
}

// CommonPosition is the last commit at or before p that this life of the log has in common
// with the one that p is of; the zero Position: none that is known of.
func (l *Log) CommonPosition(p Position) Position {
	if now, err := l.folder.resolve(p); err == nil {
		return now
	}
	for _, a := range l.folder.ancestors {
		if a.ID == p.Log {
			return Position{Log: l.folder.incarnation.ID, Number: a.last}
		}
	}
	return Position{}
}

// Cut implements Journal: whole segments below the position are deleted.
func (l *Log) Cut(p Position) error {
	p, err := l.Resolve(p)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if p.Number > l.head.number {
		l.mu.Unlock()
		return ErrAhead
	}
	l.cut = max(l.cut, p.Number)
	n := 0
	for n < len(l.segments)-1 && l.segments[n+1].first <= l.cut+1 {
		n++
	}
	gone := append([]*segment(nil), l.segments[:n]...)
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.mu.Unlock()
	defer signal(l.cuts) // the committer may wait for it
	return l.remove(gone)
}

// remove deletes files, oldest first, so that a crash leaves no hole.
func (l *Log) remove(gone []*segment) error {
	for _, s := range gone {
		if err := l.opts.FS.Remove(s.path); err != nil {
			return fmt.Errorf("cut journal: %w", err)
		}
		l.mu.Lock()
		l.stats.SizeBytes -= s.disk
		l.mu.Unlock()
	}
	if len(gone) == 0 {
		return nil
	}
	if err := l.opts.FS.SyncDir(l.dir); err != nil {
		return fmt.Errorf("cut journal: %w", err)
	}
	return nil
}

// Close implements Journal: what is queued is still committed, unless the disk
// refuses; then its Waiters hear ErrClosed. (What was being written when a disk
// failed may be found when the log is opened again; nobody was told that it is kept.)
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.done
		return nil
	}
	l.closed = true
	l.wakeWaitersLocked()
	l.mu.Unlock()
	close(l.closing)
	<-l.done
	err := l.writer.close()
	if lockErr := l.lock.Close(); err == nil {
		err = lockErr
	}
	return err
}

func (l *Log) wakeWaitersLocked() {
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
}

// queueInfo is the queue of waiting entries as people see it.
func (l *Log) queueInfo() queue.Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	return queue.Info{
		Name: l.opts.Name, Capacity: l.opts.QueueBytes, Depth: l.stats.QueuedBytes, Unit: "bytes",
		Policy: queue.Block, Passed: l.passed, Overflow: l.waited,
	}
}

// listeningStep is the most that listening time advances from one commit to the
// next: a process that was stopped, or waited for its disk, did not listen.
const listeningStep = 2 * time.Second
