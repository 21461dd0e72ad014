package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// Loss is a range of lost commits that Repair recorded in the log.
type Loss struct {
	File        string
	First, Last uint64 // commits lost; Last may be ToEnd; zero: none, the file is FORMAT
}

func (r Loss) String() string {
	if r.First == 0 {
		return r.File + ": rewritten; earlier incarnations may be missing in it"
	}
	return r.File + ": " + describeCommits(r.First, r.Last) + " lost"
}

// Repair makes a damaged log openable, for `muster doctor repair`. It rewrites damaged files with all
// their whole commits and puts one empty commit in place of each damaged run; numbers stay. It leaves
// all other files alone, and returns the losses.
func Repair(dir string, o Options) ([]Loss, error) {
	o = o.withDefaults(dir)
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
		return createEmpty(&o, dir)
	}
	r := &logRepair{o: &o, dir: dir}
	if err := r.readFolder(segments); err != nil {
		return nil, err
	}
	for _, s := range segments {
		if err := r.repairSegment(s); err != nil {
			return r.losses, fmt.Errorf("repair journal segment %q: %w", s.path, err)
		}
	}
	return r.losses, nil
}

// createEmpty makes an empty log in place of a log whose files are gone.
func createEmpty(o *Options, dir string) ([]Loss, error) {
	f := newFolder(o)
	if err := f.startIncarnation(o, 0); err != nil {
		return nil, err
	}
	if err := f.writeFormatFile(o.FS, dir); err != nil {
		return nil, err
	}
	h := segmentHeader{incarnation: f.incarnation}
	if err := disk.WriteFile(o.FS, dir, segmentName(1), h.append(nil)); err != nil {
		return nil, fmt.Errorf("start journal: %w", err)
	}
	return []Loss{{File: dir, First: 1, Last: ToEnd}}, nil
}

type logRepair struct {
	o      *Options
	dir    string
	folder *folderFormat
	before checkpoint // state after the segment before; number zero: unknown
	losses []Loss
}

// readFolder reads FORMAT, or rebuilds it from the incarnations in the segments.
func (r *logRepair) readFolder(segments []*segment) (err error) {
	r.folder, err = readFolder(r.o.FS, r.dir)
	if err == nil && r.folder != nil || err != nil && !errors.Is(err, errFormatDamaged) {
		return err
	}
	r.folder = newFolder(r.o)
	for _, s := range segments {
		data, err := disk.ReadFile(r.o.FS, s.path)
		if err != nil {
			return fmt.Errorf("repair journal: %w", err)
		}
		h, err := parseSegmentHeader(data)
		if err != nil || h.incarnation.ID == r.folder.incarnation.ID {
			continue
		}
		if r.folder.incarnation.ID != 0 {
			r.folder.ancestors = append(r.folder.ancestors, ancestorIncarnation{r.folder.incarnation, s.first - 1})
		}
		r.folder.incarnation = h.incarnation
	}
	if r.folder.incarnation.ID == 0 {
		if err := r.folder.startIncarnation(r.o, 0); err != nil {
			return err
		}
	}
	r.losses = append(r.losses, Loss{File: filepath.Join(r.dir, formatFile)})
	return r.folder.writeFormatFile(r.o.FS, r.dir)
}

// repairSegment verifies one segment against the segments beside it, and rewrites a damaged segment.
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
	head := segmentHeader{incarnation: r.folder.incarnation, before: out.start}
	return disk.WriteFile(r.o.FS, r.dir, segmentName(s.first), append(head.append(nil), out.body...))
}

// segmentRewriter builds the new content of a damaged segment.
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

// copyCommit copies a whole commit into the new segment, and records the commits that are missing before it.
func (w *segmentRewriter) copyCommit(h commitHeader, raw []byte) error {
	first, chain, err := h.firstNumberAndChain(raw[commitHeaderSize:])
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

// replaceCommits writes one empty commit in place of all lost commits up to number last. chain is the chain value of the commit
// after it.
func (w *segmentRewriter) replaceCommits(last uint64, chain uint32) {
	w.damaged = true
	le := binary.LittleEndian
	b := make([]byte, commitHeaderSize, commitHeaderSize+lostBodySize)
	b = le.AppendUint64(b, w.before.number+1)
	b = le.AppendUint32(b, chain)
	h := commitHeader{
		chain: w.before.chain, incarnation: w.folder.incarnation.ID, number: last,
		received: w.before.received, listening: w.before.listening, flags: flagLost,
	}
	h.sealCommit(b)
	w.losses = append(w.losses, Loss{File: w.path, First: w.before.number + 1, Last: last})
	w.body = append(w.body, b...)
	w.before.number, w.before.chain = last, chain
}

// recordLossToEnd records the loss of a segment's last commits. The header of the next segment has the chain
// value that follows the lost commits.
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

// DamageError reports the loss of bytes that were durable: more than a crash can cause.
type DamageError struct {
	File   string
	Offset int64
	First  uint64 // first commit that cannot be read; zero: none, the file is FORMAT
	Last   uint64 // last one; ToEnd: not known how many there were
	Reason error
}

func (e *DamageError) Error() string {
	if e.First == 0 {
		return fmt.Sprintf("journal is damaged: %s: %v; lost: nothing but this file", e.File, e.Reason)
	}
	lost := describeCommits(e.First, e.Last)
	return fmt.Sprintf("journal is damaged: %s at offset %d: %v; lost: %s", e.File, e.Offset, e.Reason, lost)
}

// ToEnd is DamageError.Last and Loss.Last where the number of lost commits is unknown.
const ToEnd = math.MaxUint64

// describeCommits returns a range of commit numbers as text for messages.
func describeCommits(first, last uint64) string {
	switch {
	case last == ToEnd:
		return fmt.Sprintf("commit %d and all after it", first)
	case last > first:
		return fmt.Sprintf("commits %d to %d", first, last)
	}
	return fmt.Sprintf("commit %d", first)
}

func (e *DamageError) Unwrap() error { return e.Reason }

// withRepairHint adds to a damage error the command that repairs the log.
func (e *DamageError) withRepairHint(o *Options) error {
	return model.Errorf(model.Internal, "%w", error(e)).WithHint(
		"restore the folder from a backup, or continue without the lost commits: %s", o.RepairCommand)
}
