package journal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// Open opens the log in dir, making it where there is none.
//
// It takes the folder's lock, reads FORMAT, checks every commit above
// Options.VerifyFrom (at least the last segment's) against the one before, cuts a
// torn last commit, and makes what it found durable before anybody relies on it.
// Damage elsewhere is a *DamageError: the start ends here, Repair goes on.
func Open(dir string, o Options) (*Log, error) {
	o = o.withDefaults(dir)
	l := &Log{
		dir: dir, opts: o,
		wake: make(chan struct{}, 1), cuts: make(chan struct{}, 1), full: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if err := l.open(); err != nil {
		if l.lock != nil {
			_ = l.lock.Close()
		}
		return nil, err
	}
	o.Queues.Register(o.Name, l.queueInfo)
	go l.run()
	return l, nil
}

func (l *Log) open() (err error) {
	o := &l.opts
	if err := o.FS.MkdirAll(l.dir); err != nil {
		return fmt.Errorf("make journal folder %q: %w", l.dir, err)
	}
	if err := o.FS.SyncDir(filepath.Dir(l.dir)); err != nil {
		return fmt.Errorf("make journal folder %q: %w", l.dir, err)
	}
	if l.lock, err = lock(o, l.dir); err != nil {
		return err
	}
	if l.segments, err = listSegments(o, l.dir); err != nil {
		return err
	}
	if len(l.segments) == 0 {
		if err := l.missing(); err != nil {
			return err
		}
	}
	if err := l.openFolder(); err != nil {
		return err
	}
	if err := l.tidy(); err != nil {
		return err
	}
	l.writer.mono = o.Clock.Mono()
	l.stats.BudgetBytes = o.Budget
	if len(l.segments) == 0 {
		return l.roll(1)
	}
	if err := l.verify(); err != nil {
		return err
	}
	return l.compare()
}

// missing says that others know a log which is not here.
func (l *Log) missing() error {
	last := uint64(0)
	for _, p := range l.opts.KnownPositions {
		last = max(last, p.Number)
	}
	if last == 0 {
		return nil
	}
	return model.Errorf(model.Unavailable,
		"journal folder %q holds no journal, but this data had one, up to commit %d at least: is its disk mounted?", l.dir, last).
		WithHint("mount it, or restore it from a backup; if it is lost, begin a new one: %s", l.opts.RepairCommand)
}

// compare begins a new incarnation if others know more of this log than it holds.
func (l *Log) compare() error {
	seen := l.head.number
	for _, p := range l.opts.KnownPositions {
		if p.Log == l.folder.incarnation.ID {
			seen = max(seen, p.Number)
		}
	}
	if seen == l.head.number && !l.opts.renew {
		return nil
	}
	if err := l.folder.renew(&l.opts, l.head.number); err != nil {
		return err
	}
	if err := l.folder.save(l.opts.FS, l.dir); err != nil {
		return err
	}
	if seen > l.head.number {
		l.opts.Logger.Error("journal ends before what snapshots or history know of it: it lost its end, or is an older copy; it goes on as a new incarnation",
			"lost", commits(l.head.number+1, seen), "incarnation", fmt.Sprintf("%016x", l.folder.incarnation.ID))
	}
	// A segment of its own: its header tells the incarnation should FORMAT be lost.
	_ = l.writer.close()
	return l.roll(l.head.number + 1)
}

// openFolder reads FORMAT, or writes it in an empty folder.
func (l *Log) openFolder() (err error) {
	o := &l.opts
	l.folder, err = readFolder(o.FS, l.dir)
	if err == nil && l.folder == nil && len(l.segments) > 0 {
		err = errNoFormat
	}
	if errors.Is(err, errFormat) || errors.Is(err, errNoFormat) {
		return (&DamageError{File: filepath.Join(l.dir, formatFile), Reason: err}).forPeople(o)
	}
	if err != nil {
		return err
	}
	if l.folder == nil {
		l.folder = &folder{partitions: o.Partitions, stores: map[string]int{}}
		for name, v := range o.Stores {
			l.folder.stores[name] = v
		}
		if err := l.folder.renew(o, 0); err != nil {
			return err
		}
		return l.folder.save(o.FS, l.dir)
	}
	changed, err := l.folder.check(o, l.dir)
	if err == nil && changed {
		err = l.folder.save(o.FS, l.dir)
	}
	return err
}

// tidy removes files that a crash left half made.
func (l *Log) tidy() error {
	names, err := l.opts.FS.List(l.dir)
	if err != nil {
		return fmt.Errorf("list journal folder %q: %w", l.dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".new") {
			if err := l.opts.FS.Remove(filepath.Join(l.dir, name)); err != nil {
				return fmt.Errorf("tidy journal folder: %w", err)
			}
		}
	}
	return nil
}

// verify walks the segments from the one that holds VerifyFrom to the last.
func (l *Log) verify() error {
	// A position that is not of this log (Resolve would refuse it) verifies all.
	from, _ := l.folder.resolve(l.opts.VerifyFrom)
	start := len(l.segments) - 1
	for start > 0 && l.segments[start].first > from.Number+1 {
		start--
	}
	for i, s := range l.segments[:start] {
		if err := l.glance(s, l.segments[i+1].first); err != nil {
			return err
		}
		l.stats.SizeBytes += s.disk
	}
	for i := start; i < len(l.segments); i++ {
		limit, last := uint64(math.MaxUint64), i == len(l.segments)-1
		if !last {
			limit = l.segments[i+1].first
		}
		if err := l.verifySegment(l.segments[i], limit, last, i > start); err != nil {
			return err
		}
		l.stats.SizeBytes += l.segments[i].disk
	}
	return nil
}

// glance takes a segment that need not be verified as its neighbours describe it.
func (l *Log) glance(s *segment, limit uint64) error {
	file, err := l.opts.FS.Open(s.path)
	if err != nil {
		return fmt.Errorf("open journal segment: %w", err)
	}
	defer file.Close()
	s.last = limit - 1
	s.disk, err = file.Size()
	return err
}

// verifySegment walks one segment. l.head must be the state before it, where
// follows; else it is taken from the segment's header.
func (l *Log) verifySegment(s *segment, limit uint64, last, follows bool) error {
	file, err := l.opts.FS.OpenWrite(s.path)
	if err != nil {
		return fmt.Errorf("open journal segment: %w", err)
	}
	keep := false
	defer func() {
		if !keep {
			_ = file.Close()
		}
	}()
	w, err := newWalker(file, l.folder.known)
	s.disk = w.size
	damaged := func(reason error, first, last uint64) error {
		if last == limit-1 && limit == math.MaxUint64 {
			last = ToEnd
		}
		return (&DamageError{
			File: s.path, Offset: w.offset, First: first, Last: max(first, last),
			After: instant(l.head.received), Reason: reason,
		}).forPeople(&l.opts)
	}
	switch {
	case errors.Is(err, errVersion):
		return newer(s.path)
	case err == nil && w.before.number+1 != s.first:
		err = errBad{errOrder}
	case err == nil && follows && w.before.number > l.head.number:
		return damaged(errors.New("the segment before is incomplete"), l.head.number+1, w.before.number)
	case err == nil && follows && w.before != l.head:
		err = errBad{errOrder}
	}
	if bad := (errBad{}); errors.As(err, &bad) {
		return damaged(err, s.first, limit-1)
	}
	if err != nil {
		return fmt.Errorf("open journal segment %q: %w", s.path, err)
	}
	w.limit, l.head = limit, w.before

	for {
		at := w.offset
		var h header
		if h, _, err = w.next(); err != nil {
			break
		}
		s.mark(h.number, at)
		s.last, s.end, l.head = h.number, w.offset, w.before
	}
	s.end = w.offset
	switch bad := (errBad{}); {
	case errors.Is(err, io.EOF) && !last && l.head.number+1 < limit:
		return damaged(errors.New("commits are missing at its end"), l.head.number+1, limit-1)
	case errors.Is(err, io.EOF):
	case errors.Is(err, errVersion):
		return newer(s.path)
	case !errors.As(err, &bad):
		return fmt.Errorf("verify journal segment %q: %w", s.path, err)
	case !last:
		return damaged(err, l.head.number+1, limit-1)
	default:
		offset := w.offset
		later, found, skipErr := w.skip()
		if skipErr != nil {
			return fmt.Errorf("verify journal segment %q: %w", s.path, skipErr)
		}
		if found {
			w.offset = offset
			return damaged(err, l.head.number+1, later.number-1)
		}
		l.cutTorn(s, &w.window, offset, bad.reason)
		return nil
	}
	if !last {
		return nil
	}
	// A process that was killed between write and sync left commits that are read
	// back but not yet durable.
	if err := file.SyncData(); err != nil {
		return fmt.Errorf("sync journal segment: %w", err)
	}
	keep, l.writer.file, l.writer.offset = true, file, s.end
	return nil
}

// cutTorn gives up the bytes behind the last whole commit: the next commit begins a
// new segment, and the rule about a segment's end does the rest.
func (l *Log) cutTorn(s *segment, w *window, offset int64, reason error) {
	l.stats.TornCommits++
	entries := "unknown"
	if b, err := w.peek(offset, commitHeaderSize); err == nil {
		if h, err := parseHeader(b); err == nil {
			entries = fmt.Sprint(h.entries)
		}
	}
	l.opts.Logger.Warn("journal ended in a torn commit, which was cut",
		"file", s.path, "offset", offset, "bytes", s.disk-offset, "commit", l.head.number+1,
		"entries", entries, "reason", reason,
		"note", "never acknowledged if the process or machine stopped while writing it")
}

// newWalker begins a segment; the error is errBad where its header is damaged.
func newWalker(file disk.File, known func(uint64) bool) (*walker, error) {
	w := &walker{known: known, offset: segmentHeaderSize, limit: math.MaxUint64}
	w.file = file
	var err error
	if w.size, err = file.Size(); err != nil {
		return w, err
	}
	b, err := w.peek(0, segmentHeaderSize)
	var h segmentHeader
	if err == nil {
		h, err = parseSegmentHeader(b)
	}
	if err == nil && !known(h.incarnation.ID) {
		err = errOrder
	}
	w.before = h.before
	switch {
	case errors.Is(err, errShort), errors.Is(err, errHeader), errors.Is(err, errOrder):
		w.offset = 0
		return w, errBad{err}
	}
	return w, err
}
