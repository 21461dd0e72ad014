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

// Open opens the log in dir, or makes a new one.
//
// It locks the folder, reads FORMAT, verifies every commit above Options.VerifyFrom (at least those of
// the last segment) against its predecessor, cuts a torn last commit, and syncs the found commits
// before any reader relies on them. Damage elsewhere is a *DamageError: Open fails, and Repair makes
// the log readable.
func Open(dir string, o Options) (*Log, error) {
	o = o.withDefaults(dir)
	l := &Log{
		dir: dir, opts: o, queue: newBatchQueue(&o),
		cuts: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	l.writer.reserve = reserve{fs: o.FS, dir: dir, size: o.Reserve, margin: 2 * int64(o.MaxCommit), log: o.Logger}
	if err := l.open(); err != nil {
		if l.lock != nil {
			_ = l.lock.Close()
		}
		return nil, err
	}
	o.Queues.Register(o.Name, l.queue.info)
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
		if err := o.requireNew(l.dir); err != nil {
			return err
		}
	}
	if l.folder, err = openFolder(o, l.dir, len(l.segments) == 0); err != nil {
		return err
	}
	if err := removeTemporary(o, l.dir); err != nil {
		return err
	}
	l.writer.mono = o.Clock.Mono()
	l.stats.BudgetBytes = o.Budget
	if len(l.segments) == 0 {
		return l.roll(1)
	}
	v := verification{opts: o, folder: l.folder, segments: l.segments}
	if err := v.run(); err != nil {
		return err
	}
	l.head, l.writer.file, l.writer.offset = v.head, v.file, v.offset
	l.stats.SizeBytes, l.stats.TornCommits = v.size, v.torn
	return l.compare()
}

// requireNew returns an error where the known positions say that an empty folder had a log.
func (o *Options) requireNew(dir string) error {
	last := uint64(0)
	for _, p := range o.KnownPositions {
		last = max(last, p.Number)
	}
	if last == 0 {
		return nil
	}
	return model.Errorf(model.Unavailable,
		"journal folder %q holds no journal, but this data had one, up to commit %d at least: is its disk mounted?", dir, last).
		WithHint("mount it, or restore it from a backup; if it is lost, start a new one: %s", o.RepairCommand)
}

// compare starts a new incarnation where a known position is above the head of the log.
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
	// A new segment: its header has the incarnation, should FORMAT be lost.
	_ = l.writer.close()
	return l.roll(l.head.number + 1)
}

// openFolder reads FORMAT, or writes it in an empty folder.
func openFolder(o *Options, dir string, empty bool) (*folder, error) {
	f, err := readFolder(o.FS, dir)
	if err == nil && f == nil && !empty {
		err = errNoFormat
	}
	if errors.Is(err, errFormat) || errors.Is(err, errNoFormat) {
		return nil, (&DamageError{File: filepath.Join(dir, formatFile), Reason: err}).withHint(o)
	}
	if err != nil {
		return nil, err
	}
	if f == nil {
		f = newFolder(o)
		if err := f.renew(o, 0); err != nil {
			return nil, err
		}
		return f, f.save(o.FS, dir)
	}
	changed, err := f.check(o, dir)
	if err == nil && changed {
		err = f.save(o.FS, dir)
	}
	return f, err
}

// removeTemporary removes the files that a crash left half written.
func removeTemporary(o *Options, dir string) error {
	names, err := o.FS.List(dir)
	if err != nil {
		return fmt.Errorf("list journal folder %q: %w", dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".new") {
			if err := o.FS.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("remove a temporary file of the journal: %w", err)
			}
		}
	}
	return nil
}

// verification checks the segments of a log that is being opened, and collects its state.
type verification struct {
	opts     *Options
	folder   *folder
	segments []*segment

	head   checkpoint // last commit found
	size   int64      // bytes of all segments
	torn   uint64     // torn commits cut
	file   disk.File  // last segment, open for appending; nil: the next commit starts a new one
	offset int64      // of its next commit
}

// run walks the segments from the one that holds VerifyFrom to the last.
func (v *verification) run() error {
	// A position of another log (Resolve would refuse it) verifies all.
	from, _ := v.folder.resolve(v.opts.VerifyFrom)
	start := len(v.segments) - 1
	for start > 0 && v.segments[start].first > from.Number+1 {
		start--
	}
	for i, s := range v.segments[:start] {
		if err := v.skip(s, v.segments[i+1].first); err != nil {
			return err
		}
		v.size += s.disk
	}
	for i := start; i < len(v.segments); i++ {
		limit, last := uint64(math.MaxUint64), i == len(v.segments)-1
		if !last {
			limit = v.segments[i+1].first
		}
		if err := v.segment(v.segments[i], limit, last, i > start); err != nil {
			return err
		}
		v.size += v.segments[i].disk
	}
	return nil
}

// skip takes the numbers of a segment that need not be verified from the next segment's name.
func (v *verification) skip(s *segment, limit uint64) error {
	file, err := v.opts.FS.Open(s.path)
	if err != nil {
		return fmt.Errorf("open journal segment: %w", err)
	}
	defer file.Close()
	s.last = limit - 1
	s.disk, err = file.Size()
	return err
}

// segment walks one segment and leaves the last one open. v.head is the state before it where follows;
// else the segment's header has it.
func (v *verification) segment(s *segment, limit uint64, last, follows bool) error {
	file, err := v.opts.FS.OpenWrite(s.path)
	if err != nil {
		return fmt.Errorf("open journal segment: %w", err)
	}
	keep := false
	defer func() {
		if !keep {
			_ = file.Close()
		}
	}()
	w, err := newWalker(file, v.folder.isKnown)
	s.disk = w.size
	damaged := func(reason error, first, last uint64) error {
		if last == limit-1 && limit == math.MaxUint64 {
			last = ToEnd
		}
		return (&DamageError{
			File: s.path, Offset: w.offset, First: first, Last: max(first, last),
			After: instant(v.head.received), Reason: reason,
		}).withHint(v.opts)
	}
	switch {
	case errors.Is(err, errVersion):
		return newerError(s.path)
	case err == nil && w.before.number+1 != s.first:
		err = errBad{errOrder}
	case err == nil && follows && w.before.number > v.head.number:
		return damaged(errors.New("the segment before is incomplete"), v.head.number+1, w.before.number)
	case err == nil && follows && w.before != v.head:
		err = errBad{errOrder}
	}
	if bad := (errBad{}); errors.As(err, &bad) {
		return damaged(err, s.first, limit-1)
	}
	if err != nil {
		return fmt.Errorf("open journal segment %q: %w", s.path, err)
	}
	w.limit, v.head = limit, w.before

	for {
		at := w.offset
		var h header
		if h, _, err = w.next(); err != nil {
			break
		}
		s.mark(h.number, at)
		s.last, s.end, v.head = h.number, w.offset, w.before
	}
	s.end = w.offset
	switch bad := (errBad{}); {
	case errors.Is(err, io.EOF) && !last && v.head.number+1 < limit:
		return damaged(errors.New("commits are missing at its end"), v.head.number+1, limit-1)
	case errors.Is(err, io.EOF):
	case errors.Is(err, errVersion):
		return newerError(s.path)
	case !errors.As(err, &bad):
		return fmt.Errorf("verify journal segment %q: %w", s.path, err)
	case !last:
		return damaged(err, v.head.number+1, limit-1)
	default:
		offset := w.offset
		later, found, skipErr := w.skip()
		if skipErr != nil {
			return fmt.Errorf("verify journal segment %q: %w", s.path, skipErr)
		}
		if found {
			w.offset = offset
			return damaged(err, v.head.number+1, later.number-1)
		}
		v.cutTorn(s, &w.window, offset, bad.reason)
		return nil
	}
	if !last {
		return nil
	}
	// A process that was killed between write and sync left commits that can be read but are not
	// durable yet.
	if err := file.SyncData(); err != nil {
		return fmt.Errorf("sync journal segment: %w", err)
	}
	keep, v.file, v.offset = true, file, s.end
	return nil
}

// cutTorn reports the bytes after the last whole commit. The next commit starts a new segment, whose
// number ends this one, so that readers ignore them.
func (v *verification) cutTorn(s *segment, w *window, offset int64, reason error) {
	v.torn++
	entries := "unknown"
	if b, err := w.peek(offset, commitHeaderSize); err == nil {
		if h, err := parseHeader(b); err == nil {
			entries = fmt.Sprint(h.entries)
		}
	}
	v.opts.Logger.Warn("journal ended in a torn commit, which was cut",
		"file", s.path, "offset", offset, "bytes", s.disk-offset, "commit", v.head.number+1,
		"entries", entries, "reason", reason,
		"note", "never acknowledged if the process or machine stopped while writing it")
}

// newWalker reads a segment's header. The error is errBad where it is damaged.
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
