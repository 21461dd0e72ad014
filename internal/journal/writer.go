package journal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// writer is the committer's way to the disk.
type writer struct {
	grouper grouper
	bytes   []byte        // the commit being written
	mono    time.Duration // clock at the last stamp
	holds   bool          // the last commit has entries

	file     disk.File // open segment; nil: the next commit opens one
	offset   int64     // where its next commit goes
	reserved bool      // the reserve is there
	refused  bool      // a batch waits for room, while ticks go on
	blocked  time.Time // since when; zero: not
	broken   error     // acknowledged bytes were found gone: nothing goes on until a restart
}

// ErrBudget is Stats.Blocked while the log is as large as it may be.
var ErrBudget = errors.New("journal is at its size budget: waiting for snapshots, history and reactions to let go of its tail")

// errRoom: there is no room for entries, but there may be for a tick.
var errRoom = errors.New("no room for entries")

// write makes a commit durable and returns its offset. It does not give up: while
// the disk refuses it waits and tries again, until the log closes. Only errRoom is
// returned, by a log that ticks: the head may move before the next attempt.
func (l *Log) write(data []byte, h header) (offset int64, err error) {
	w := &l.writer
	tick := h.entries == 0 && l.opts.Tick > 0
	for {
		lack := l.room(int64(len(data)))
		if err = lack; err == nil || tick { // a few bytes find room in what the reserve left
			offset, err = l.put(data, h.number)
		}
		switch {
		case err != nil:
		case lack != nil:
			l.block(lack)
			return offset, nil
		case tick && w.refused:
			return offset, nil
		default:
			w.refused = false
			l.unblock()
			return offset, nil
		}
		l.block(err)
		if !l.pause() {
			return 0, ErrClosed
		}
		if !tick && l.opts.Tick > 0 && (lack != nil || disk.IsFull(err)) {
			w.refused = true
			return 0, errRoom
		}
	}
}

// room says why so many bytes may not be taken.
func (l *Log) room(more int64) error {
	if err := l.takeReserve(); err != nil {
		return err
	}
	return l.checkBudget(more)
}

// put writes and syncs once.
func (l *Log) put(data []byte, number uint64) (offset int64, err error) {
	w := &l.writer
	if w.broken != nil {
		return 0, w.broken
	}
	if w.file != nil && w.offset > segmentHeaderSize && w.offset+int64(len(data)) > l.opts.SegmentSize {
		_ = w.close() // all of it is synced
	}
	if w.file == nil {
		if err := l.roll(number); err != nil {
			l.dropReserve(err)
			return 0, err
		}
	}
	if _, err := w.file.WriteAt(data, w.offset); err != nil {
		if disk.IsFull(err) {
			l.dropReserve(err) // what comes next goes to the same place
			return 0, err
		}
		return 0, l.abandon(err, number)
	}
	err = w.file.SyncData()
	l.count(func(s *Stats) { s.Syncs++ })
	if err != nil {
		l.dropReserve(err)
		return 0, l.abandon(err, number)
	}
	offset = w.offset
	w.offset += int64(len(data))
	return offset, nil
}

// roll begins a segment with the commit number. Its header appears whole or not at
// all: once the segments before are cut, it alone knows where the log stands.
func (l *Log) roll(number uint64) error {
	name := segmentName(number)
	h := segmentHeader{incarnation: l.folder.incarnation, before: l.head}
	if err := disk.WriteFile(l.opts.FS, l.dir, name, h.append(nil)); err != nil {
		return fmt.Errorf("begin journal segment: %w", err)
	}
	s := &segment{
		path: filepath.Join(l.dir, name), first: number, last: number - 1,
		end: segmentHeaderSize, disk: segmentHeaderSize,
	}
	file, err := l.opts.FS.OpenWrite(s.path)
	if err != nil {
		return fmt.Errorf("begin journal segment: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 && l.segments[n-1].first == number {
		l.stats.SizeBytes -= l.segments[n-1].disk // it never held a commit
		l.segments = l.segments[:n-1]
	}
	l.segments = append(l.segments, s)
	l.stats.SizeBytes += s.disk
	l.writer.file, l.writer.offset = file, segmentHeaderSize
	return nil
}

// abandon gives up the open segment after a failed write or sync: the kernel may
// have dropped the pages and call them clean, so this descriptor is never synced
// again. What was acknowledged from the segment is read back and checked; the
// commit in hand goes into a new segment.
func (l *Log) abandon(cause error, number uint64) error {
	_ = l.writer.close()
	l.mu.Lock()
	s := *l.segments[len(l.segments)-1]
	l.mu.Unlock()
	if err := l.verifyAgain(&s); err != nil {
		l.opts.Logger.Error("journal segment lost acknowledged commits after a failed sync",
			"file", s.path, "err", err, "cause", cause)
		l.writer.broken = err
		return err
	}
	l.mu.Lock()
	last := l.segments[len(l.segments)-1]
	l.stats.SizeBytes += s.disk - last.disk
	last.disk = s.disk
	l.mu.Unlock()
	l.opts.Logger.Error("journal segment given up after a failed write", "file", s.path, "err", cause)
	// At once, so that a restart does not take for kept what only the page cache has.
	_ = l.roll(number) // tried again with the commit
	return cause
}

// verifyAgain reads a segment from its start to its last acknowledged commit.
func (l *Log) verifyAgain(s *segment) error {
	file, err := l.opts.FS.Open(s.path)
	if err != nil {
		if s.last < s.first {
			return nil // nothing was acknowledged from it
		}
		return fmt.Errorf("verify journal segment: %w", err)
	}
	defer file.Close()
	w, err := newWalker(file, l.folder.known)
	s.disk = w.size
	if s.last < s.first {
		return nil
	}
	if err != nil {
		return fmt.Errorf("verify journal segment %q: %w", s.path, err)
	}
	w.limit = s.last + 1
	for err == nil {
		_, _, err = w.next()
	}
	if errors.Is(err, io.EOF) && w.before.number == s.last {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = errShort
	}
	return (&DamageError{
		File: s.path, Offset: w.offset, First: w.before.number + 1, Last: s.last, Reason: err,
	}).forPeople(&l.opts)
}

// checkBudget refuses to grow beyond the budget. Where even the segment being
// written is below the cut, it is closed and dropped.
func (l *Log) checkBudget(more int64) error {
	l.mu.Lock()
	over := l.stats.SizeBytes+more+segmentHeaderSize > l.opts.Budget
	droppable := l.cut == l.head.number && l.head.number > 0 && l.segments[len(l.segments)-1].disk > segmentHeaderSize
	l.mu.Unlock()
	if !over {
		return nil
	}
	if !droppable {
		return ErrBudget
	}
	_ = l.writer.close()
	if err := l.roll(l.head.number + 1); err != nil {
		return err
	}
	if err := l.Cut(Position{Log: l.folder.incarnation.ID, Number: l.head.number}); err != nil {
		return err
	}
	return nil
}

func (w *writer) close() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	return file.Close()
}

// block says why nothing is being committed.
func (l *Log) block(err error) {
	w := &l.writer
	if w.blocked.IsZero() {
		w.blocked = time.Now()
		l.opts.Logger.Error("journal cannot commit, will go on by itself", "err", err)
	}
	l.count(func(s *Stats) { s.Blocked = err })
}

func (l *Log) unblock() {
	w := &l.writer
	if w.blocked.IsZero() {
		return
	}
	l.opts.Logger.Info("journal commits again", "after", time.Since(w.blocked))
	w.blocked = time.Time{}
	l.count(func(s *Stats) { s.Blocked = nil })
}

// pause waits before the next attempt, until a cut gives room back at most; false: the
// log closes.
func (l *Log) pause() bool {
	retry := time.NewTimer(l.opts.Retry)
	defer retry.Stop()
	select {
	case <-retry.C:
		return true
	case <-l.cuts:
		return true
	case <-l.closing:
		return false
	}
}

func (l *Log) count(change func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}
