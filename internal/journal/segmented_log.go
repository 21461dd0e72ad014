package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Log is the implementation of Journal in segment files.
//
// Append copies entries into the last batch of the queue (append_queue.go). The committer, one goroutine
// (committer.go), takes the first batch, makes a commit of it, writes and syncs it (segment_writer.go),
// publishes the new head, calls Deliver and then the Waiters. Meanwhile the next batch fills: that is
// the group commit.
//
// mu guards the fields below it and is never held during a disk operation, a Deliver or a Waiter.
// queue.mu may be taken under it.
type Log struct {
	dir    string
	opts   Options
	lock   io.Closer
	folder *folderFormat

	queue   batchQueue
	stalled atomic.Pointer[time.Time] // end of the last stall, with its monotonic reading; nil: there was none
	cuts    chan struct{}             // capacity 1: a cut may have freed disk space
	closing chan struct{}             // closed by Close
	done    chan struct{}             // closed by the committer
	commits sync.Pool                 // of *commit
	writer  segmentWriter             // owned by the committer

	mu       sync.Mutex
	segments []*segment // oldest first, never empty; the last is being written
	head     checkpoint // last durable commit
	cut      uint64     // highest number that Cut was called with
	losses   []Loss     // recorded by Open for Repair and NewIncarnation
	closed   bool
	stats    Stats // without QueuedBytes
}

var _ Journal = (*Log)(nil)

// Append queues entries to be written in one commit, and waits while the queue is full.
func (l *Log) Append(ctx context.Context, entries ...Entry) error {
	raw := 0
	for i := range entries {
		if entries[i].Section > All {
			panic(fmt.Sprintf("BUG: journal section %d", entries[i].Section))
		}
		raw += rawSize(&entries[i])
	}
	if raw > MaxAppend {
		return model.Errorf(model.TooLarge, "cannot append %d bytes to the journal, the limit is %d", raw, MaxAppend)
	}
	if len(entries) == 0 {
		return nil
	}
	return l.queue.appendEntries(ctx, raw, entries)
}

// Head returns the position of the last durable commit.
func (l *Log) Head() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Position{Log: l.folder.incarnation.ID, Number: l.head.number}
}

// MissingSegments returns the segment files that somebody deleted or moved from the log's folder.
func (l *Log) MissingSegments() (paths []string) {
	l.mu.Lock()
	segments := slices.Clone(l.segments)
	l.mu.Unlock()
	names, err := l.opts.FS.List(l.dir)
	if err != nil {
		return nil // the folder cannot be read now: the next commit or start reports it
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range segments {
		if !slices.Contains(names, filepath.Base(s.path)) && slices.Contains(l.segments, s) { // else it was cut meanwhile
			paths = append(paths, s.path)
		}
	}
	return paths
}

// LastStallEnd returns the time at which the last long pause of the process or the disk ended. A stall is a pause of the
// process or the disk for more than two seconds. nil: there was none since Open. The pointer is another one after each
// stall.
func (l *Log) LastStallEnd() *time.Time { return l.stalled.Load() }

// Times returns the time of day and the listening (receiving) time of the last durable commit. Listening time
// is the total time in which the server could receive results.
func (l *Log) Times() Times {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Times{l.head.received, l.head.listening}
}

// Tail returns the position of the oldest commit that the log still has. In an empty log the tail is one above the
// head.
func (l *Log) Tail() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Position{Log: l.folder.incarnation.ID, Number: l.segments[0].first}
}

// Incarnation returns the random id of the log. A restore or repair changes it.
func (l *Log) Incarnation() Incarnation { return l.folder.incarnation }

// Stats returns the counters and gauges of the log.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := l.stats
	stats.QueuedBytes = l.queue.queuedBytes()
	return stats
}

// SizeAfter returns how many bytes a reader at the given position still has to read. It is accurate to a few
// hundred kilobytes.
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
			at, _ := s.nearestOffset(p.Number + 1)
			size += s.disk - at
		}
	}
	return size
}

// Resolve converts a position from before a restore or repair to a position in the present log. The old position was
// recorded before a restore or repair. It returns ErrTrimmed for a commit that this incarnation does not share, and
// for a position of another journal.
func (l *Log) Resolve(p Position) (Position, error) {
	return l.folder.resolvePosition(p)
}

// HasIncarnation reports whether an incarnation id is the log's present id or one of its earlier ids
func (l *Log) HasIncarnation(incarnation uint64) bool { return l.folder.isKnown(incarnation) }

// resolvePosition converts a position from before a restore or repair to the present log. It returns ErrTrimmed if the
// log lacks that commit.
func (f *folderFormat) resolvePosition(p Position) (Position, error) {
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

// CommonPosition returns the last commit that the log still shares with the log before a restore or repair. The
// old position is from before a restore or repair. The result is zero if the log has no such commit.
func (l *Log) CommonPosition(p Position) Position {
	if now, err := l.folder.resolvePosition(p); err == nil {
		return now
	}
	for _, a := range l.folder.ancestors {
		if a.ID == p.Log {
			return Position{Log: l.folder.incarnation.ID, Number: a.last}
		}
	}
	return Position{}
}

// Cut deletes the oldest segments, whose commits all lie at or before a position.
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
	removed := append([]*segment(nil), l.segments[:n]...)
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.mu.Unlock()
	defer signalChannel(l.cuts) // the committer may wait for the freed space
	return l.removeSegments(removed)
}

// removeSegments deletes segment files, oldest first, so that a crash leaves no gap between segments.
func (l *Log) removeSegments(segments []*segment) error {
	for _, s := range segments {
		if err := l.opts.FS.Remove(s.path); err != nil {
			return fmt.Errorf("delete old journal segments: %w", err)
		}
		l.mu.Lock()
		l.stats.SizeBytes -= s.disk
		l.mu.Unlock()
	}
	if len(segments) == 0 {
		return nil
	}
	if err := l.opts.FS.SyncDir(l.dir); err != nil {
		return fmt.Errorf("delete old journal segments: %w", err)
	}
	return nil
}

// Close commits the queued entries and closes the log. It commits the queued entries; where the disk refuses them,
// their Waiters get ErrClosed. (A commit whose write failed may still be found by the next Open; it was not
// acknowledged.)
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.done
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.queue.close()
	close(l.closing)
	<-l.done
	err := l.writer.close()
	l.folder.recordClose(&l.opts, l.dir, l.Head().Number)
	if lockErr := l.lock.Close(); err == nil {
		err = lockErr
	}
	return err
}

// listeningStep is the most that listening time advances from one commit to the next: a process that
// was stopped, or waited for its disk, accepted nothing.
const listeningStep = 2 * time.Second

// OldestReceived returns when the journal's oldest commit was received, or zero without commits.
func OldestReceived(ctx context.Context, l *Log) (at time.Time, err error) {
	first := l.Tail()
	first.Number--
	found := errors.New("found")
	err = l.Read(ctx, first, func(c Commit) error {
		at = time.Unix(0, c.Received())
		return found
	})
	if errors.Is(err, found) {
		err = nil
	}
	return at, err
}
