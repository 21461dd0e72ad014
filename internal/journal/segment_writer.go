package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// segmentWriter has the open segment file, the reserve file and the error that blocks commits. Only the committer
// goroutine uses it.
type segmentWriter struct {
	grouper       partitionGrouper
	bytes         []byte        // the commit being written
	mono          time.Duration // clock at the last stamp
	clockAhead    time.Duration // see Stats.Ahead, of the last commit
	endsInEntries bool          // the last commit has entries
	flowing       bool          // the last commit came without a stall
	delivering    time.Duration // that Deliver took of the last commit

	file               disk.File // open segment; nil: the next commit opens one
	offset             int64     // where its next commit goes
	reserve            reservedSpace
	batchWaitsForSpace bool      // a batch waits for disk space, while ticks go on
	blocked            time.Time // start of the present failure; zero: none
	broken             error     // acknowledged commits are lost: nothing is written until a restart
}

// ErrBudget is Stats.Blocked while the log has reached Options.Budget.
var ErrBudget = errors.New("the journal is at its size budget: it waits until snapshots and history no longer need its oldest segment")

// errNoSpaceForEntries reports that the disk has no space for entries, but may have space for an empty commit (a tick).
var errNoSpaceForEntries = errors.New("no space for entries")

// writeUntilDurable writes and syncs a commit until both succeed, and returns the commit's offset. While the disk
// refuses, it repeats the attempt until the log closes. It returns errNoSpaceForEntries only in a log with ticks:
// empty commits may move the head before the next attempt.
func (l *Log) writeUntilDurable(data []byte, h commitHeader) (offset int64, err error) {
	w := &l.writer
	tick := h.entries == 0 && l.opts.Tick > 0
	for {
		lack := l.checkDiskSpace(int64(len(data)))
		if err = lack; err == nil || tick { // the released reserve has space for a few bytes
			offset, err = l.writeAndSync(data, h.number)
		}
		switch {
		case err != nil:
		case lack != nil:
			l.reportBlocked(lack)
			return offset, nil
		case tick && w.batchWaitsForSpace:
			return offset, nil
		default:
			w.batchWaitsForSpace = false
			l.reportUnblocked()
			return offset, nil
		}
		l.reportBlocked(err)
		if !l.waitForRetry() {
			return 0, ErrClosed
		}
		if !tick && l.opts.Tick > 0 && (lack != nil || disk.IsFull(err)) {
			w.batchWaitsForSpace = true
			return 0, errNoSpaceForEntries
		}
	}
}

// checkDiskSpace returns an error if the log may not grow now, for example on a full disk. The disk has no
// space for the reserve file, or the log has reached its size limit.
func (l *Log) checkDiskSpace(more int64) error {
	if err := l.writer.reserve.allocate(); err != nil {
		return err
	}
	return l.checkBudget(more)
}

// writeAndSync writes a commit and syncs the segment, once.
func (l *Log) writeAndSync(data []byte, number uint64) (offset int64, err error) {
	w := &l.writer
	if w.broken != nil {
		return 0, w.broken
	}
	if w.file != nil && w.offset > segmentHeaderSize && w.offset+int64(len(data)) > l.opts.SegmentSize {
		_ = w.close() // all of it is synced
	}
	if w.file == nil {
		if err := l.startSegment(number); err != nil {
			w.reserve.release(err)
			return 0, err
		}
	}
	if _, err := w.file.WriteAt(data, w.offset); err != nil {
		if disk.IsFull(err) {
			w.reserve.release(err) // the next attempt writes to the same place
			return 0, err
		}
		return 0, l.abandonSegment(err, number)
	}
	err = w.file.SyncData()
	l.updateStats(func(s *Stats) { s.Syncs++ })
	if err != nil {
		w.reserve.release(err)
		return 0, l.abandonSegment(err, number)
	}
	offset = w.offset
	w.offset += int64(len(data))
	return offset, nil
}

// startSegment creates a new segment file, whose first commit will have the given number. The segment's header
// is written atomically: once the earlier segments are cut, the header alone has the position and time of the
// log.
func (l *Log) startSegment(number uint64) error {
	name := segmentName(number)
	h := segmentHeader{incarnation: l.folder.incarnation, before: l.head}
	if err := disk.WriteFile(l.opts.FS, l.dir, name, h.append(nil)); err != nil {
		return fmt.Errorf("start journal segment: %w", err)
	}
	s := &segment{
		path: filepath.Join(l.dir, name), first: number, last: number - 1,
		end: segmentHeaderSize, disk: segmentHeaderSize,
	}
	file, err := l.opts.FS.OpenWrite(s.path)
	if err != nil {
		return fmt.Errorf("start journal segment: %w", err)
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

// abandonSegment gives up the segment file after a failed write or sync, and verifies its earlier commits. The kernel
// may have dropped the dirty pages and marked them clean, so this descriptor is never synced again. abandonSegment
// reads the segment's acknowledged commits back and verifies them; the present commit goes into a new segment.
func (l *Log) abandonSegment(cause error, number uint64) error {
	_ = l.writer.close()
	l.mu.Lock()
	s := *l.segments[len(l.segments)-1]
	l.mu.Unlock()
	if err := l.verifySegmentAgain(&s); err != nil {
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
	l.opts.Logger.Error("closed a journal segment after a failed write", "file", s.path, "err", cause)
	// At once, so that a restart does not trust bytes that only the page cache has.
	_ = l.startSegment(number) // tried again with the commit
	return cause
}

// verifySegmentAgain reads a segment from disk again and verifies its acknowledged commits.
func (l *Log) verifySegmentAgain(s *segment) error {
	file, err := l.opts.FS.Open(s.path)
	if err != nil {
		if s.last < s.first {
			return nil // nothing was acknowledged from it
		}
		return fmt.Errorf("verify journal segment: %w", err)
	}
	defer file.Close()
	w, err := newCommitWalker(file, l.folder.isKnown)
	s.disk = w.size
	if s.last < s.first {
		return nil
	}
	if err != nil {
		return fmt.Errorf("verify journal segment %q: %w", s.path, err)
	}
	w.limit = s.last + 1
	for err == nil {
		_, _, err = w.nextCommit()
	}
	return w.requireCommitsRead(&l.opts, s, s.last, err)
}

// checkBudget returns ErrBudget if the next commit would exceed the log's size limit. An open segment that is wholly
// below the cut is closed and deleted.
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
	if err := l.startSegment(l.head.number + 1); err != nil {
		return err
	}
	if err := l.Cut(Position{Log: l.folder.incarnation.ID, Number: l.head.number}); err != nil {
		return err
	}
	return nil
}

// close closes the open segment file.
func (w *segmentWriter) close() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	return file.Close()
}

// reportBlocked logs once why the log can write no commits, and shows the reason in Stats.Blocked.
func (l *Log) reportBlocked(err error) {
	w := &l.writer
	if w.blocked.IsZero() {
		w.blocked = time.Now()
		l.opts.Logger.Error("journal cannot commit; the server retries", "err", err)
	}
	l.updateStats(func(s *Stats) { s.Blocked = err })
}

// reportUnblocked logs that the log can write commits again. The message has the duration of the failure.
func (l *Log) reportUnblocked() {
	w := &l.writer
	if w.blocked.IsZero() {
		return
	}
	l.opts.Logger.Info("journal commits again", "after", time.Since(w.blocked))
	w.blocked = time.Time{}
	l.updateStats(func(s *Stats) { s.Blocked = nil })
}

// waitForRetry waits before a blocked commit is tried again. It waits for Options.Retry, or until a cut frees space.
// It returns false if the log closes.
func (l *Log) waitForRetry() bool {
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

// updateStats calls a function that changes the log's statistics, under the log's lock.
func (l *Log) updateStats(change func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}

const reserveFile = "RESERVE"

// reservedSpace is a file that occupies disk space, to free when the disk is full. It is deleted when the disk is
// full, so that snapshots can be written and the log be cut; commits wait until it can be allocated again. A disk with
// less free space than the reserve counts as full. The committer owns it.
type reservedSpace struct {
	fs     disk.FS
	dir    string
	size   int64 // bytes; zero: there is no reserve
	margin int64 // bytes that must be free besides
	log    *slog.Logger
	held   bool
}

// allocate creates the reserve file, unless the file exists already. An error reports that the disk is full.
func (r *reservedSpace) allocate() error {
	if r.size == 0 || r.held {
		return nil
	}
	path := filepath.Join(r.dir, reserveFile)
	if f, err := r.fs.Open(path); err == nil {
		size, err := f.Size()
		_ = f.Close()
		if err == nil && size == r.size {
			r.held = true
			return nil
		}
	}
	_ = r.fs.Remove(path) // of another size: its space counts as free
	need := r.size + r.margin
	if free, err := r.fs.Free(r.dir); err == nil && free < need {
		return fmt.Errorf("disk is full: %d MiB free in %q, the journal needs %d MiB: %w", free>>20, r.dir, need>>20, syscall.ENOSPC)
	}
	f, err := r.fs.Create(path)
	if err != nil {
		return fmt.Errorf("allocate the reserve file of the journal: %w", err)
	}
	err = f.Allocate(r.size)
	_ = f.Close()
	if err != nil {
		_ = r.fs.Remove(path)
		return fmt.Errorf("allocate the reserve file of the journal: %w", err)
	}
	r.held = true
	return nil
}

// release deletes the reserve file if an error was caused by a full disk.
func (r *reservedSpace) release(cause error) {
	if !r.held || !disk.IsFull(cause) {
		return
	}
	r.held = false
	if err := r.fs.Remove(filepath.Join(r.dir, reserveFile)); err != nil {
		r.log.Warn("cannot delete the journal's reserve file", "err", err)
		return
	}
	r.log.Warn("disk is full: the journal deleted its reserve file", "bytes", r.size)
}

// leastFreeAtOpen is the free disk space that the stores of a server need to open.
const leastFreeAtOpen = 16 << 20

// ReleaseReserve deletes the reserve file when the disk is full, so that the server can start. The open journal
// allocates it again when there is room, and commits nothing before. It reports whether it deleted the reserve.
func ReleaseReserve(fs disk.FS, dir string) (released bool) {
	if free, err := fs.Free(dir); err != nil || free >= leastFreeAtOpen {
		return false // err: a new folder
	}
	return fs.Remove(filepath.Join(dir, reserveFile)) == nil
}
