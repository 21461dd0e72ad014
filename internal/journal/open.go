package journal

import (
	"errors"
	"fmt"
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
		"journal folder %q has no journal, but this data had one up to commit %d or later: check that its disk is mounted", dir, last).
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
		l.opts.Logger.Error("journal ends before positions that snapshots or history have recorded: it lost its end or is an older copy; starting a new incarnation",
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
	for i, s := range v.segments {
		check := func(s *segment) error { return v.segment(s, i > start) }
		if i < start {
			check = v.skip
		}
		if err := check(s); err != nil {
			return err
		}
		v.size += s.disk
	}
	return nil
}

// skip takes the numbers of a segment that need not be verified from the next segment's name.
func (v *verification) skip(s *segment) error {
	file, err := v.opts.FS.Open(s.path)
	if err != nil {
		return fmt.Errorf("open journal segment: %w", err)
	}
	defer file.Close()
	s.last = s.limit - 1
	s.disk, err = file.Size()
	return err
}

// segment walks one segment and leaves the last one open. v.head is the state before it where follows;
// else the segment's header has it.
func (v *verification) segment(s *segment, follows bool) error {
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
	s.disk, w.limit = w.size, s.limit
	switch {
	case err != nil:
		_, err = w.checkEnd(v.opts, s, err)
		return err
	case follows && w.before.number+1 == s.first && w.before.number > v.head.number:
		return w.damage(v.opts, s, v.head.number+1, w.before.number, errors.New("the segment before is incomplete"))
	case w.before.number+1 != s.first, follows && w.before != v.head:
		return w.damage(v.opts, s, s.first, s.limit-1, errOrder)
	}
	for err == nil {
		at := w.offset
		var h header
		if h, _, err = w.next(); err == nil {
			s.mark(h.number, at)
			s.last = h.number
		}
	}
	s.end, v.head = w.offset, w.before
	why := err
	torn, err := w.checkEnd(v.opts, s, why)
	switch {
	case err != nil || s.limit != ToEnd:
		return err
	case torn:
		v.cutTorn(s, w, why)
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
func (v *verification) cutTorn(s *segment, w *walker, reason error) {
	v.torn++
	entries := "unknown"
	if b, err := w.peek(w.offset, commitHeaderSize); err == nil {
		if h, err := parseHeader(b); err == nil {
			entries = fmt.Sprint(h.entries)
		}
	}
	v.opts.Logger.Warn("cut a torn commit at the journal's end",
		"file", s.path, "offset", w.offset, "bytes", s.disk-w.offset, "commit", v.head.number+1,
		"entries", entries, "reason", reason,
		"note", "never acknowledged if the process or machine stopped while writing it")
}
