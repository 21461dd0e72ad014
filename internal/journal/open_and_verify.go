package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// Open opens the log in a folder, or creates a new one.
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
	l.writer.reserve = reservedSpace{fs: o.FS, dir: dir, size: o.Reserve, margin: 2 * int64(o.MaxCommit), log: o.Logger}
	if err := l.openFolderAndSegments(); err != nil {
		if l.lock != nil {
			_ = l.lock.Close()
		}
		return nil, err
	}
	o.Queues.Register(o.Name, l.queue.describeQueue)
	go l.runCommitter()
	return l, nil
}

// openFolderAndSegments locks the journal folder, reads FORMAT, verifies the segments and opens the last one.
func (l *Log) openFolderAndSegments() (err error) {
	o := &l.opts
	if err := o.FS.MkdirAll(l.dir); err != nil {
		return fmt.Errorf("make journal folder %q: %w", l.dir, err)
	}
	if err := o.FS.SyncDir(filepath.Dir(l.dir)); err != nil {
		return fmt.Errorf("make journal folder %q: %w", l.dir, err)
	}
	if l.lock, err = lockFolder(o, l.dir); err != nil {
		return err
	}
	if l.segments, err = listSegments(o, l.dir); err != nil {
		return err
	}
	if len(l.segments) == 0 {
		if err := o.refuseMissingLog(l.dir); err != nil {
			return err
		}
	}
	if l.folder, err = readOrCreateFormatFile(o, l.dir, len(l.segments) == 0); err != nil {
		return err
	}
	if err := removeTemporary(o, l.dir); err != nil {
		return err
	}
	l.writer.mono = o.Clock.Mono()
	l.stats.BudgetBytes = o.Budget
	if len(l.segments) == 0 {
		return l.startSegment(1)
	}
	v := logVerification{opts: o, folder: l.folder, segments: l.segments}
	if err := v.verifySegments(); err != nil {
		return err
	}
	l.head, l.writer.file, l.writer.offset = v.head, v.file, v.offset
	l.stats.SizeBytes, l.stats.TornCommits = v.size, v.torn
	return l.compareRecordedPositions()
}

// refuseMissingLog returns an error if the journal folder is empty although a snapshot or database mentions
// journal commits. Other stores have recorded positions of the log.
func (o *Options) refuseMissingLog(dir string) error {
	last := uint64(0)
	for _, p := range o.KnownPositions {
		last = max(last, p.Number)
	}
	if last == 0 {
		return nil
	}
	return model.Errorf(model.Unavailable,
		"journal folder %q is empty, but other data mention journal commits up to %d or later: check that the disk of the folder is mounted", dir, last).
		WithHint("mount the disk, or restore the folder from a backup; if the journal is lost, continue with the states in the snapshots: %s", o.RepairCommand)
}

// Reasons why a log does not fit the positions that other stores know.
var (
	errEndLost    = errors.New("the journal ends before commits that its last close, snapshots or history have recorded: its last commits are lost, or the journal is an older copy")
	errForeignLog = errors.New("snapshots and history belong to another journal")
)

// compareRecordedPositions returns an error if the log lacks commits that the file FORMAT or another store mentions.
// Repair and NewIncarnation record the loss instead, and start a new incarnation.
func (l *Log) compareRecordedPositions() error {
	o, seen, foreign := &l.opts, max(l.head.number, l.folder.closed), len(l.opts.KnownPositions) > 0
	for _, p := range o.KnownPositions {
		foreign = foreign && p.Number > 0 && !l.folder.isKnown(p.Log)
		if p.Log == l.folder.incarnation.ID {
			seen = max(seen, p.Number)
		}
	}
	end := l.segments[len(l.segments)-1]
	switch lost := seen > l.head.number; {
	case foreign && !o.renew && !o.mendEnd:
		return (&DamageError{File: end.path, Reason: errForeignLog}).withRepairHint(o)
	case lost && !o.renew && !o.mendEnd:
		return (&DamageError{File: end.path, Offset: end.end, First: l.head.number + 1, Last: seen, Reason: errEndLost}).withRepairHint(o)
	case lost:
		if err := replaceLostEnd(l, seen); err != nil {
			return err
		}
	case foreign:
		l.losses = append(l.losses, Loss{File: l.dir, foreign: true})
		for _, p := range o.KnownPositions {
			if !l.folder.isKnown(p.Log) { // from now on a known incarnation without shared commits
				l.folder.ancestors = append(l.folder.ancestors, ancestorIncarnation{Incarnation: Incarnation{ID: p.Log}})
			}
		}
	case !o.renew:
		return nil
	}
	if err := l.folder.startIncarnation(o, l.head.number); err != nil {
		return err
	}
	if err := l.folder.writeFormatFile(o.FS, l.dir); err != nil {
		return err
	}
	// A new segment: its header has the incarnation, should FORMAT be lost.
	_ = l.writer.close()
	return l.startSegment(l.head.number + 1)
}

// replaceLostEnd replaces the lost commits at the end of the log by one empty commit. The empty commit is in a
// segment of its own. The log continues from Options.KnownTimes: deadlines in the snapshots count on listening
// time.
func replaceLostEnd(l *Log, last uint64) error {
	first := l.head.number + 1
	l.losses = append(l.losses, Loss{File: l.dir, First: first, Last: last})
	h := segmentHeader{incarnation: l.folder.incarnation, before: l.head}
	l.head.received = max(l.head.received, l.opts.KnownTimes.Received)
	l.head.listening = max(l.head.listening, l.opts.KnownTimes.Listening)
	data, next := appendLostCommit(h.append(nil), l.folder.incarnation.ID, l.head, last, 0)
	if err := disk.WriteFile(l.opts.FS, l.dir, segmentName(first), data); err != nil {
		return fmt.Errorf("replace the lost last commits of the journal: %w", err)
	}
	_ = l.writer.close()
	l.segments = slices.DeleteFunc(l.segments, func(s *segment) bool { return s.first == first })
	l.segments = append(l.segments, &segment{
		path: filepath.Join(l.dir, segmentName(first)), first: first, limit: ToEnd, last: last, end: int64(len(data)), disk: int64(len(data)),
	})
	l.head = next
	return nil
}

// readOrCreateFormatFile reads the file FORMAT of a journal folder, or creates the file in an empty folder. In
// an empty folder it writes the file.
func readOrCreateFormatFile(o *Options, dir string, empty bool) (*folderFormat, error) {
	f, err := readFormatFile(o.FS, dir)
	if err == nil && f == nil && !empty {
		err = errFormatMissing
	}
	if errors.Is(err, errFormatDamaged) || errors.Is(err, errFormatMissing) {
		return nil, (&DamageError{File: filepath.Join(dir, formatFile), Reason: err}).withRepairHint(o)
	}
	if err != nil {
		return nil, err
	}
	if f == nil {
		f = newFolderFormat(o)
		if err := f.startIncarnation(o, 0); err != nil {
			return nil, err
		}
		return f, f.writeFormatFile(o.FS, dir)
	}
	changed, err := f.checkOptions(o, dir)
	if err == nil && changed {
		err = f.writeFormatFile(o.FS, dir)
	}
	return f, err
}

// removeTemporary deletes half-written files that a crash has left behind.
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

// logVerification verifies the segments of a log at opening. It finds the log's last commit and size.
type logVerification struct {
	opts     *Options
	folder   *folderFormat
	segments []*segment

	head   checkpoint // last commit found
	size   int64      // bytes of all segments
	torn   uint64     // torn commits cut
	file   disk.File  // last segment, open for appending; nil: the next commit starts a new one
	offset int64      // of its next commit
}

// verifySegments verifies all segments from the segment with commit VerifyFrom to the newest.
func (v *logVerification) verifySegments() error {
	// A position of another log (Resolve would refuse it) verifies all.
	from, _ := v.folder.resolvePosition(v.opts.VerifyFrom)
	start := len(v.segments) - 1
	for start > 0 && v.segments[start].first > from.Number+1 {
		start--
	}
	for i, s := range v.segments {
		check := func(s *segment) error { return v.verifySegment(s, i > start) }
		if i < start {
			check = v.skipVerifiedSegment
		}
		if err := check(s); err != nil {
			return err
		}
		v.size += s.disk
	}
	return nil
}

// skipVerifiedSegment determines a segment's commit numbers from file names, because a snapshot covers the
// segment.
func (v *logVerification) skipVerifiedSegment(s *segment) error {
	file, err := v.opts.FS.Open(s.path)
	if err != nil {
		return fmt.Errorf("open journal segment: %w", err)
	}
	defer file.Close()
	s.last = s.limit - 1
	s.disk, err = file.Size()
	return err
}

// verifySegment verifies the commits of one segment, and leaves the last segment open for writing. If follows
// is true, the first commit must continue v.head, else the commit that the segment's header names.
func (v *logVerification) verifySegment(s *segment, follows bool) error {
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
	w, err := newCommitWalker(file, v.folder.isKnown)
	s.disk, w.limit = w.size, s.limit
	switch {
	case err != nil:
		_, err = w.checkSegmentEnd(v.opts, s, err)
		return err
	case follows && w.before.number+1 == s.first && w.before.number > v.head.number:
		return w.newDamageError(v.opts, s, v.head.number+1, w.before.number, errors.New("the previous segment is incomplete"))
	case w.before.number+1 != s.first, follows && w.before != v.head:
		return w.newDamageError(v.opts, s, s.first, s.limit-1, errWrongPredecessor)
	}
	for err == nil {
		at := w.offset
		var h commitHeader
		if h, _, err = w.nextCommit(); err == nil {
			s.addCommitOffset(h.number, at)
			s.last = h.number
		}
	}
	s.end, v.head = w.offset, w.before
	why := err
	torn, err := w.checkSegmentEnd(v.opts, s, why)
	switch {
	case err != nil || s.limit != ToEnd:
		return err
	case torn:
		v.reportIncompleteCommit(s, w, why)
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

// reportIncompleteCommit warns of an incomplete commit that a crash left at the end of the log. Readers ignore the
// commit. The next commit starts a new segment, whose number ends the present segment, so that readers ignore these
// bytes.
func (v *logVerification) reportIncompleteCommit(s *segment, w *commitWalker, reason error) {
	v.torn++
	entries := "unknown"
	if b, err := w.peekBytes(w.offset, commitHeaderSize); err == nil {
		if h, err := parseHeader(b); err == nil {
			entries = fmt.Sprint(h.entries)
		}
	}
	v.opts.Logger.Warn("removed an incomplete commit at the journal's end",
		"file", s.path, "offset", w.offset, "bytes", s.disk-w.offset, "commit", v.head.number+1,
		"entries", entries, "reason", reason,
		"note", "no result of the commit was acknowledged, if the process or machine stopped during the write")
}
