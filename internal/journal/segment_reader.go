package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// fileWindow reads a file sequentially through one buffer.
type fileWindow struct {
	file disk.File
	size int64 // of the file, when opened
	buf  []byte
	at   int64 // offset of buf[0]
}

const windowSize = 256 << 10

// peekBytes returns n bytes at an offset of the file, in a buffer that the next call overwrites. It returns
// errTruncatedCommit if the file ends before.
func (w *fileWindow) peekBytes(offset int64, n int) ([]byte, error) {
	if offset+int64(n) > w.size {
		return nil, errTruncatedCommit
	}
	if offset < w.at || offset+int64(n) > w.at+int64(len(w.buf)) {
		want := int(min(int64(max(n, windowSize)), w.size-offset))
		w.buf = resizeBuffer(w.buf, want)
		read, err := w.file.ReadAt(w.buf, offset)
		w.buf, w.at = w.buf[:read], offset
		if read < n {
			if err == nil || errors.Is(err, io.EOF) {
				err = errTruncatedCommit
			}
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	from := int(offset - w.at)
	return w.buf[from : from+n : from+n], nil
}

// commitWalker reads the commits of one segment and verifies each against its predecessor.
type commitWalker struct {
	fileWindow
	known     func(incarnation uint64) bool
	offset    int64      // of the next commit
	before    checkpoint // state the next commit must continue
	limit     uint64     // first number of the next segment: commits from there on were abandoned
	afterJump bool       // do not check that the next commit continues before (after a jump)
}

// newCommitWalker reads a segment's header and returns the reader of its commits. It returns an invalidBytesError if
// the header is damaged.
func newCommitWalker(file disk.File, known func(uint64) bool) (*commitWalker, error) {
	w := &commitWalker{known: known, offset: segmentHeaderSize, limit: ToEnd}
	w.file = file
	var err error
	if w.size, err = file.Size(); err != nil {
		return w, err
	}
	b, err := w.peekBytes(0, segmentHeaderSize)
	var h segmentHeader
	if err == nil {
		h, err = parseSegmentHeader(b)
	}
	if err == nil && !known(h.incarnation.ID) {
		err = errWrongPredecessor
	}
	w.before = h.before
	if errors.Is(err, errTruncatedCommit) || errors.Is(err, errDamagedHeader) || errors.Is(err, errWrongPredecessor) {
		w.offset = 0
		return w, invalidBytesError{err}
	}
	return w, err
}

// newDamageError returns the error about a range of lost commits, whose damage begins at the reader's current
// offset. In the last segment of a log, whose number of commits is unknown, last is ToEnd.
func (w *commitWalker) newDamageError(o *Options, s *segment, first, last uint64, reason error) error {
	if last == ToEnd-1 {
		last = ToEnd
	}
	return (&DamageError{File: s.path, Offset: w.offset, First: first, Last: max(first, last), Reason: reason}).withRepairHint(o)
}

// requireCommitsRead returns a damage error if the segment ended before the commit numbered last. why is the
// error that ended the walk.
func (w *commitWalker) requireCommitsRead(o *Options, s *segment, last uint64, why error) error {
	if errors.Is(why, io.EOF) {
		if w.before.number >= last {
			return nil
		}
		why = errTruncatedCommit
	}
	return w.newDamageError(o, s, w.before.number+1, last, why)
}

// checkSegmentEnd returns an error if a segment ends before its last expected commit. torn is true if a crash
// left an incomplete last commit. why is the error that ended the walk. With torn true the log ends there, and
// later bytes are a commit that is being written, or was when the process stopped.
func (w *commitWalker) checkSegmentEnd(o *Options, s *segment, why error) (torn bool, err error) {
	bad := invalidBytesError{}
	switch {
	case errors.Is(why, io.EOF) && (w.limit == ToEnd || w.before.number+1 >= w.limit):
		return false, nil
	case errors.Is(why, io.EOF):
		why = errMissingCommits
	case errors.Is(why, errNewerVersion):
		return false, newerVersionError(s.path)
	case !errors.As(why, &bad):
		return false, fmt.Errorf("read journal segment %q: %w", s.path, why)
	case w.offset == 0: // the header
		return false, w.newDamageError(o, s, s.first, w.limit-1, why)
	case w.limit == ToEnd:
		offset := w.offset
		later, found, err := w.skipToWholeCommit()
		if err != nil {
			return false, fmt.Errorf("read journal segment %q: %w", s.path, err)
		}
		if w.offset = offset; !found {
			return true, nil
		}
		return false, w.newDamageError(o, s, w.before.number+1, later.number-1, why)
	}
	return false, w.newDamageError(o, s, w.before.number+1, w.limit-1, why)
}

// invalidBytesError is the reason why the bytes at an offset are no valid commit.
type invalidBytesError struct{ reason error }

// Error returns why the bytes in a journal segment are no valid commit.
func (e invalidBytesError) Error() string { return e.reason.Error() }

// Unwrap returns the error that says why bytes in a journal segment are invalid.
func (e invalidBytesError) Unwrap() error { return e.reason }

// nextCommit returns the next verified commit of the segment, in memory that the next call overwrites. It
// returns io.EOF at the end of the segment and an invalidBytesError at invalid bytes; other errors come from
// the disk. raw is the commit's header and body.
func (w *commitWalker) nextCommit() (h commitHeader, raw []byte, err error) {
	if w.before.number+1 >= w.limit && !w.afterJump || w.offset == w.size {
		return h, nil, io.EOF
	}
	h, raw, err = w.parseCommit(w.offset)
	if err != nil {
		return h, nil, err
	}
	first, chain, err := h.replacedRange(raw[commitHeaderSize:])
	if err != nil {
		return h, nil, invalidBytesError{err}
	}
	switch {
	case w.afterJump:
	case first != w.before.number+1 || h.number < first || h.chain != w.before.chain,
		h.received < w.before.received, h.listening < w.before.listening:
		return h, nil, invalidBytesError{errWrongPredecessor}
	}
	w.afterJump = false
	w.offset += int64(len(raw))
	w.before = checkpoint{number: h.number, chain: chain, received: h.received, listening: h.listening}
	return h, raw, nil
}

// parseCommit decodes the commit at a file offset and verifies its checksums. It does not compare the commit with the
// one before.
func (w *commitWalker) parseCommit(offset int64) (h commitHeader, raw []byte, err error) {
	raw, err = w.peekBytes(offset, commitHeaderSize)
	if err == nil {
		h, err = parseHeader(raw)
	}
	if err == nil && !w.known(h.incarnation) {
		err = errWrongPredecessor
	}
	if err == nil {
		raw, err = w.peekBytes(offset, commitHeaderSize+int(h.body))
	}
	if err == nil && !h.hasValidChecksum(raw, raw[commitHeaderSize:]) {
		err = errWrongChecksum
	}
	switch {
	case err == nil:
		return h, raw, nil
	case errors.Is(err, errTruncatedCommit), errors.Is(err, errDamagedHeader), errors.Is(err, errWrongPredecessor),
		errors.Is(err, errWrongChecksum), errors.Is(err, errInvalidContent):
		return h, nil, invalidBytesError{err}
	}
	return h, nil, err // a disk error, or errNewerVersion: skipping bytes does not help
}

// skipToWholeCommit skips invalid bytes up to the next valid commit with a higher number. Such a commit proves
// damage, because a commit is written only after its predecessor is durable.
func (w *commitWalker) skipToWholeCommit() (h commitHeader, found bool, err error) {
	magic := binary.LittleEndian.AppendUint32(nil, commitMagic)
	for at := w.offset + 1; at+commitHeaderSize <= w.size; {
		definition, err := w.peekBytes(at, int(min(windowSize, w.size-at)))
		if err != nil {
			return h, false, err
		}
		i := bytes.Index(definition, magic)
		if i < 0 {
			at += int64(max(1, len(definition)-len(magic)+1))
			continue
		}
		at += int64(i)
		h, raw, err := w.parseCommit(at)
		if err == nil {
			first, _, err := h.replacedRange(raw[commitHeaderSize:])
			if err == nil && first > w.before.number && h.number < w.limit {
				w.offset, w.afterJump = at, true
				return h, true, nil
			}
		} else if bad := (invalidBytesError{}); !errors.As(err, &bad) {
			return h, false, err
		}
		at++
	}
	return h, false, nil
}

// segment is one segment file of the log, with the numbers of its first and last commit. Its content ends before the
// first number of the next segment: later bytes are the rest of a failed write or a crash. Log.mu guards it once the
// log is open.
type segment struct {
	path          string
	first         uint64         // number of the first commit
	limit         uint64         // of the next segment, when the folder was listed; ToEnd: there was none
	last          uint64         // of the last durable one; first-1: none
	end           int64          // offset after it; zero in a segment that was not verified
	disk          int64          // bytes of the file
	commitOffsets []commitOffset // offsets of some commits, ascending
}

// commitOffset is the recorded file offset of a commit in its segment.
type commitOffset struct {
	number uint64
	offset int64
}

// minOffsetDistance is the least number of bytes between two recorded commit offsets.
const minOffsetDistance = 256 << 10

// addCommitOffset records the file offset of a commit, unless the last recorded offset is closer than
// minOffsetDistance bytes.
func (s *segment) addCommitOffset(number uint64, offset int64) {
	if n := len(s.commitOffsets); n == 0 || offset-s.commitOffsets[n-1].offset >= minOffsetDistance {
		s.commitOffsets = append(s.commitOffsets, commitOffset{number, offset})
	}
}

// nearestOffset returns the recorded offset of the given commit, or of the nearest commit before.
func (s *segment) nearestOffset(number uint64) (offset int64, known bool) {
	i := sort.Search(len(s.commitOffsets), func(i int) bool { return s.commitOffsets[i].number > number })
	if i == 0 {
		return segmentHeaderSize, false
	}
	return s.commitOffsets[i-1].offset, true
}

const segmentSuffix = ".log"

// segmentName returns a segment's file name, which contains the number of its first commit.
func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// parseSegmentName returns the number of the first commit in a segment from the file name.
func parseSegmentName(name string) (first uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// listSegments returns the segments of a folder, oldest first.
func listSegments(o *Options, dir string) ([]*segment, error) {
	names, err := o.FS.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list journal folder %q: %w", dir, err)
	}
	var list []*segment
	for _, name := range names {
		if first, ok := parseSegmentName(name); ok {
			list = append(list, &segment{path: filepath.Join(dir, name), first: first, limit: ToEnd, last: first - 1})
		}
	}
	slices.SortFunc(list, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(list); i++ {
		list[i-1].limit = list[i].first
	}
	return list, nil
}
