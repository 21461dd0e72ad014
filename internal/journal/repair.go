package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// Loss is a range of lost commits that Repair has recorded in the log.
type Loss struct {
	File        string
	First, Last uint64 // commits lost; Last may be ToEnd; zero: none, the file is rewritten
	foreign     bool   // nothing is lost here: the log belongs to other data
}

// String formats the range of lost commits for people.
func (r Loss) String() string {
	switch {
	case r.foreign:
		return r.File + ": accepted in place of the journal that snapshots and history belong to; their states are not used"
	case r.First == 0 && filepath.Base(r.File) == formatFile:
		return r.File + ": rewritten; earlier incarnations may be missing in it"
	case r.First == 0:
		return r.File + ": rewritten with all its commits"
	}
	return r.File + ": " + describeCommits(r.First, r.Last) + " lost"
}

// Repair changes a damaged log so that Open accepts the log, for `muster doctor repair`. It rewrites damaged files
// with all their whole commits and puts one empty commit in place of each damaged run; numbers stay. It leaves all
// other files alone, and returns the losses. Where the log ends before Options.KnownPositions, the empty commit
// reaches up to them, and the log starts a new incarnation.
func Repair(dir string, o Options) ([]Loss, error) {
	losses, err := repairSegments(dir, o.withDefaults(dir))
	if err != nil {
		return losses, err
	}
	o.Tick, o.Reserve, o.Deliver, o.mendEnd = -1, -1, nil, true
	l, err := Open(dir, o)
	if err != nil {
		return losses, err
	}
	return append(losses, l.losses...), l.Close()
}

// repairSegments rewrites the damaged files of a log.
func repairSegments(dir string, o Options) ([]Loss, error) {
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make journal folder %q: %w", dir, err)
	}
	held, err := lockFolder(&o, dir)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	segments, err := listSegments(&o, dir)
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		return createEmptyLog(&o, dir)
	}
	r := &logRepair{o: &o, dir: dir}
	if err := r.readFormatFile(segments); err != nil {
		return nil, err
	}
	for _, s := range segments {
		if err := r.repairSegment(s); err != nil {
			return r.losses, fmt.Errorf("repair journal segment %q: %w", s.path, err)
		}
	}
	return r.losses, nil
}

// createEmptyLog creates an empty log in place of a log whose files are missing. It keeps the incarnation that the
// newest known position has.
func createEmptyLog(o *Options, dir string) ([]Loss, error) {
	f, newest := newFolderFormat(o), Position{}
	for _, p := range o.KnownPositions {
		if p.Number > newest.Number {
			newest = p
		}
	}
	if err := f.startIncarnation(o, 0); err != nil {
		return nil, err
	}
	f.incarnation.ID = cmp.Or(newest.Log, f.incarnation.ID)
	if err := f.writeFormatFile(o.FS, dir); err != nil {
		return nil, err
	}
	h := segmentHeader{incarnation: f.incarnation}
	if err := disk.WriteFile(o.FS, dir, segmentName(1), h.append(nil)); err != nil {
		return nil, fmt.Errorf("create the first segment of the journal: %w", err)
	}
	if newest.Number > 0 {
		return nil, nil // Repair records the commits up to the known positions as lost
	}
	return []Loss{{File: dir, First: 1, Last: ToEnd}}, nil
}

// logRepair repairs the segments of a log in order, and collects the lost commits.
type logRepair struct {
	o      *Options
	dir    string
	folder *folderFormat
	before checkpoint // state after the segment before; number zero: unknown
	losses []Loss
}

// readFormatFile reads the file FORMAT of the journal folder. It rebuilds FORMAT from the segment headers if
// the file is damaged, or if it belongs to another journal than the segments and the other stores.
func (r *logRepair) readFormatFile(segments []*segment) (err error) {
	r.folder, err = readFormatFile(r.o.FS, r.dir)
	if err != nil && !errors.Is(err, errFormatDamaged) {
		return err
	}
	rebuilt, rebuildErr := r.rebuildFormatFile(segments)
	if rebuildErr != nil {
		return rebuildErr
	}
	id := rebuilt.incarnation.ID
	stray := r.folder != nil && !r.folder.isKnown(id) && slices.ContainsFunc(r.o.KnownPositions, func(p Position) bool { return p.Log == id })
	if err == nil && r.folder != nil && !stray {
		return nil
	}
	r.folder = rebuilt
	if id == 0 {
		if err := r.folder.startIncarnation(r.o, 0); err != nil {
			return err
		}
	}
	r.losses = append(r.losses, Loss{File: filepath.Join(r.dir, formatFile)})
	return r.folder.writeFormatFile(r.o.FS, r.dir)
}

// rebuildFormatFile restores the content of the file FORMAT from the segment headers. The log's id (incarnation) is zero
// if no header is readable.
func (r *logRepair) rebuildFormatFile(segments []*segment) (*folderFormat, error) {
	f := newFolderFormat(r.o)
	for _, s := range segments {
		file, err := r.o.FS.Open(s.path)
		if err != nil {
			return nil, fmt.Errorf("repair journal: %w", err)
		}
		data := make([]byte, segmentHeaderSize)
		n, _ := file.ReadAt(data, 0)
		_ = file.Close()
		h, err := parseSegmentHeader(data[:n])
		if err != nil || h.incarnation.ID == f.incarnation.ID {
			continue
		}
		if f.incarnation.ID != 0 {
			f.ancestors = append(f.ancestors, ancestorIncarnation{f.incarnation, s.first - 1})
		}
		f.incarnation = h.incarnation
	}
	return f, nil
}

// repairSegment verifies one segment against its neighbours, and rewrites a damaged segment
func (r *logRepair) repairSegment(s *segment) error {
	file, err := r.o.FS.Open(s.path)
	if err != nil {
		return err
	}
	defer file.Close()
	w, err := newCommitWalker(file, r.folder.isKnown)
	bad := invalidBytesError{}
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	out := &segmentRewriter{logRepair: r, path: s.path, before: w.before}
	if err != nil || w.before.number+1 != s.first || r.before.number != 0 && w.before != r.before {
		out.damaged, out.before = true, r.before
		if r.before.number == 0 { // the first segment: its first whole commit has the state
			out.before, out.guess = checkpoint{number: s.first - 1}, true
		}
		w.offset, w.afterJump = segmentHeaderSize, true
	}
	out.start = out.before
	lost := len(r.losses)
	w.limit, w.before = s.limit, out.before
	for {
		h, raw, err := w.nextCommit()
		switch {
		case err == nil:
			if err := out.copyCommit(h, raw); err != nil {
				return err
			}
			continue
		case errors.Is(err, io.EOF):
		case errors.As(err, &bad):
			if _, found, err := w.skipToWholeCommit(); err != nil {
				return err
			} else if found {
				out.damaged = true
				continue
			}
			if s.limit == ToEnd && !out.damaged {
				return nil // a torn last commit: Open cuts it
			}
			out.cut = true
		default:
			return err
		}
		break
	}
	switch {
	case s.limit == ToEnd && out.damaged && (out.cut || len(out.body) == 0): // more damage than a crash can cause
		r.losses = append(r.losses, Loss{File: s.path, First: out.before.number + 1, Last: ToEnd})
	case s.limit != ToEnd && out.before.number+1 < s.limit:
		if err := out.recordLossToEnd(s.limit); err != nil {
			return err
		}
	}
	r.before = out.before
	if !out.damaged {
		return nil
	}
	if len(r.losses) == lost {
		r.losses = append(r.losses, Loss{File: s.path})
	}
	head := segmentHeader{incarnation: r.folder.incarnation, before: out.start}
	return disk.WriteFile(r.o.FS, r.dir, segmentName(s.first), append(head.append(nil), out.body...))
}

// segmentRewriter builds the repaired content of a damaged segment.
type segmentRewriter struct {
	*logRepair
	path    string
	body    []byte
	before  checkpoint
	start   checkpoint
	guess   bool // before is unknown: the first copied commit determines it
	damaged bool
	cut     bool // no whole commit follows the damaged bytes
}

// copyCommit copies an undamaged commit into the repaired segment. It also records the commits that are missing
// before.
func (w *segmentRewriter) copyCommit(h commitHeader, raw []byte) error {
	first, chain, err := h.replacedRange(raw[commitHeaderSize:])
	if err != nil {
		return err
	}
	if w.guess && len(w.body) == 0 {
		w.before = checkpoint{number: w.before.number, chain: h.chain, received: h.received, listening: h.listening}
		w.start = w.before
	}
	switch {
	case first > w.before.number+1:
		w.replaceCommits(first-1, h.chain)
	case h.chain != w.before.chain:
		w.damaged = true // whole, but of another chain
		return nil
	}
	w.body = append(w.body, raw...)
	w.before = checkpoint{number: h.number, chain: chain, received: h.received, listening: h.listening}
	return nil
}

// replaceCommits writes one empty commit in place of all lost commits up to a commit number. chain is the chain
// value of the commit after it.
func (w *segmentRewriter) replaceCommits(last uint64, chain uint32) {
	w.damaged = true
	w.losses = append(w.losses, Loss{File: w.path, First: w.before.number + 1, Last: last})
	w.body, w.before = appendLostCommit(w.body, w.folder.incarnation.ID, w.before, last, chain)
}

// appendLostCommit encodes one empty commit that replaces all lost commits up to a commit number. It returns
// the state from which the next commit continues. chain is the chain value of the next commit.
func appendLostCommit(dst []byte, incarnation uint64, before checkpoint, last uint64, chain uint32) ([]byte, checkpoint) {
	le := binary.LittleEndian
	b := make([]byte, commitHeaderSize, commitHeaderSize+lostBodySize)
	b = le.AppendUint64(b, before.number+1)
	b = le.AppendUint32(b, chain)
	h := commitHeader{
		chain: before.chain, incarnation: incarnation, number: last,
		received: before.received, listening: before.listening, flags: flagLost,
	}
	h.encodeHeader(b)
	before.number, before.chain = last, chain
	return append(dst, b...), before
}

// recordLossToEnd records the rest of a segment, from the current commit on, as lost. The header of the next segment
// has the chain value that follows the lost commits.
func (w *segmentRewriter) recordLossToEnd(limit uint64) error {
	chain := uint32(0)
	next, err := w.o.FS.Open(filepath.Join(w.dir, segmentName(limit)))
	if err != nil {
		return err
	}
	defer next.Close()
	after, err := newCommitWalker(next, w.folder.isKnown)
	bad := invalidBytesError{}
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	if err == nil {
		chain = after.before.chain
		w.before.received, w.before.listening = after.before.received, after.before.listening
	}
	w.replaceCommits(limit-1, chain)
	return nil
}

// DamageError is the error about a journal file whose synced bytes were lost or changed. A crash alone cannot cause it
type DamageError struct {
	File   string
	Offset int64
	First  uint64 // first commit that cannot be read; zero: none, the file is FORMAT
	Last   uint64 // last one; ToEnd: not known how many there were
	Reason error
}

// Error returns a text with the damaged file, the offset and the lost commits.
func (e *DamageError) Error() string {
	switch {
	case e.First == 0 && errors.Is(e.Reason, errForeignLog):
		return fmt.Sprintf("the journal belongs to other data: %s: %v", e.File, e.Reason)
	case e.First == 0:
		return fmt.Sprintf("journal is damaged: %s: %v; lost: only this file", e.File, e.Reason)
	}
	lost := describeCommits(e.First, e.Last)
	return fmt.Sprintf("journal is damaged: %s at offset %d: %v; lost: %s", e.File, e.Offset, e.Reason, lost)
}

// ToEnd is DamageError.Last and Loss.Last where the number of lost commits is unknown.
const ToEnd = math.MaxUint64

// describeCommits formats a range of commit numbers for messages.
func describeCommits(first, last uint64) string {
	switch {
	case last == ToEnd:
		return fmt.Sprintf("commit %d and all after it", first)
	case last > first:
		return fmt.Sprintf("commits %d to %d", first, last)
	}
	return fmt.Sprintf("commit %d", first)
}

// Unwrap returns the reason why the bytes are invalid.
func (e *DamageError) Unwrap() error { return e.Reason }

// withRepairHint adds to a damage error the command that repairs the log.
func (e *DamageError) withRepairHint(o *Options) error {
	return model.Errorf(model.Internal, "%w", error(e)).WithHint(
		"restore the folder from a backup, or continue without the lost commits: %s", o.RepairCommand)
}
