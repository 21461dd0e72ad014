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

// window reads a file forwards through one buffer.
type window struct {
	file disk.File
	size int64 // of the file, when opened
	buf  []byte
	at   int64 // offset of buf[0]
}

const windowSize = 256 << 10

// peek returns n bytes at offset, valid until the next peek; errShort where the
// file ends before.
func (w *window) peek(offset int64, n int) ([]byte, error) {
	if offset+int64(n) > w.size {
		return nil, errShort
	}
	if offset < w.at || offset+int64(n) > w.at+int64(len(w.buf)) {
		want := int(min(int64(max(n, windowSize)), w.size-offset))
		w.buf = grow(w.buf, want)
		read, err := w.file.ReadAt(w.buf, offset)
		w.buf, w.at = w.buf[:read], offset
		if read < n {
			if err == nil || errors.Is(err, io.EOF) {
				err = errShort
			}
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	from := int(offset - w.at)
	return w.buf[from : from+n : from+n], nil
}

// walker reads the commits of one segment and verifies each against its predecessor.
type walker struct {
	window
	known  func(incarnation uint64) bool
	offset int64      // of the next commit
	before checkpoint // state the next commit must continue
	limit  uint64     // first number of the next segment: commits from there on were abandoned
	free   bool       // do not check that the next commit continues before (after a jump)
}

// newWalker reads a segment's header. The error is errBad where it is damaged.
func newWalker(file disk.File, known func(uint64) bool) (*walker, error) {
	w := &walker{known: known, offset: segmentHeaderSize, limit: ToEnd}
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
	if errors.Is(err, errShort) || errors.Is(err, errHeader) || errors.Is(err, errOrder) {
		w.offset = 0
		return w, errBad{err}
	}
	return w, err
}

// damage reports the loss of commits at the walker's offset. A last one at the limit of the log's last
// segment is ToEnd.
func (w *walker) damage(o *Options, s *segment, first, last uint64, reason error) error {
	if last == ToEnd-1 {
		last = ToEnd
	}
	return (&DamageError{File: s.path, Offset: w.offset, First: first, Last: max(first, last), Reason: reason}).withHint(o)
}

// checkRead returns an error where the walk ended before commit last; why ended it.
func (w *walker) checkRead(o *Options, s *segment, last uint64, why error) error {
	if errors.Is(why, io.EOF) {
		if w.before.number >= last {
			return nil
		}
		why = errShort
	}
	return w.damage(o, s, w.before.number+1, last, why)
}

// checkEnd returns an error where the segment must not end where the walk ended; why ended it. torn: the
// log ends there, and later bytes are a commit that is being written, or was when the process stopped.
func (w *walker) checkEnd(o *Options, s *segment, why error) (torn bool, err error) {
	bad := errBad{}
	switch {
	case errors.Is(why, io.EOF) && (w.limit == ToEnd || w.before.number+1 >= w.limit):
		return false, nil
	case errors.Is(why, io.EOF):
		why = errMissing
	case errors.Is(why, errVersion):
		return false, newerError(s.path)
	case !errors.As(why, &bad):
		return false, fmt.Errorf("read journal segment %q: %w", s.path, why)
	case w.offset == 0: // the header
		return false, w.damage(o, s, s.first, w.limit-1, why)
	case w.limit == ToEnd:
		offset := w.offset
		later, found, err := w.skip()
		if err != nil {
			return false, fmt.Errorf("read journal segment %q: %w", s.path, err)
		}
		if w.offset = offset; !found {
			return true, nil
		}
		return false, w.damage(o, s, w.before.number+1, later.number-1, why)
	}
	return false, w.damage(o, s, w.before.number+1, w.limit-1, why)
}

// errBad wraps the reason why the bytes at the walker's offset are no valid commit there.
type errBad struct{ reason error }

func (e errBad) Error() string { return e.reason.Error() }
func (e errBad) Unwrap() error { return e.reason }

// next returns the next commit, valid until the next call. It returns io.EOF at the end of the segment
// and errBad at invalid bytes; other errors are the disk's. raw is header and body.
func (w *walker) next() (h header, raw []byte, err error) {
	if w.before.number+1 >= w.limit && !w.free || w.offset == w.size {
		return h, nil, io.EOF
	}
	h, raw, err = w.parse(w.offset)
	if err != nil {
		return h, nil, err
	}
	first, chain, err := h.first(raw[commitHeaderSize:])
	if err != nil {
		return h, nil, errBad{err}
	}
	switch {
	case w.free:
	case first != w.before.number+1 || h.number < first || h.chain != w.before.chain,
		h.received < w.before.received, h.listening < w.before.listening:
		return h, nil, errBad{errOrder}
	}
	w.free = false
	w.offset += int64(len(raw))
	w.before = checkpoint{number: h.number, chain: chain, received: h.received, listening: h.listening}
	return h, raw, nil
}

// parse reads a commit at offset and verifies it without its predecessor.
func (w *walker) parse(offset int64) (h header, raw []byte, err error) {
	raw, err = w.peek(offset, commitHeaderSize)
	if err == nil {
		h, err = parseHeader(raw)
	}
	if err == nil && !w.known(h.incarnation) {
		err = errOrder
	}
	if err == nil {
		raw, err = w.peek(offset, commitHeaderSize+int(h.body))
	}
	if err == nil && !h.sealed(raw, raw[commitHeaderSize:]) {
		err = errChecksum
	}
	switch {
	case err == nil:
		return h, raw, nil
	case errors.Is(err, errShort), errors.Is(err, errHeader), errors.Is(err, errOrder),
		errors.Is(err, errChecksum), errors.Is(err, errMalformed):
		return h, nil, errBad{err}
	}
	return h, nil, err // the disk's, or errVersion: skipping bytes does not help
}

// skip searches after invalid bytes for the next whole commit with a number above the walker's, and
// moves there. Such a commit proves damage, because a commit is written only after its predecessor is
// durable.
func (w *walker) skip() (h header, found bool, err error) {
	magic := binary.LittleEndian.AppendUint32(nil, commitMagic)
	for at := w.offset + 1; at+commitHeaderSize <= w.size; {
		chunk, err := w.peek(at, int(min(windowSize, w.size-at)))
		if err != nil {
			return h, false, err
		}
		i := bytes.Index(chunk, magic)
		if i < 0 {
			at += int64(max(1, len(chunk)-len(magic)+1))
			continue
		}
		at += int64(i)
		h, raw, err := w.parse(at)
		if err == nil {
			first, _, err := h.first(raw[commitHeaderSize:])
			if err == nil && first > w.before.number && h.number < w.limit {
				w.offset, w.free = at, true
				return h, true, nil
			}
		} else if bad := (errBad{}); !errors.As(err, &bad) {
			return h, false, err
		}
		at++
	}
	return h, false, nil
}

// segment is one file of the log. Its content ends before the first number of the next segment: later
// bytes are the rest of a failed write or a crash. Log.mu guards it once the log is open.
type segment struct {
	path  string
	first uint64 // number of the first commit
	limit uint64 // of the next segment, when the folder was listed; ToEnd: there was none
	last  uint64 // of the last durable one; first-1: none
	end   int64  // offset after it; zero in a segment that was not verified
	disk  int64  // bytes of the file
	marks []mark // offsets of some commits, ascending
}

// mark is the offset of a commit.
type mark struct {
	number uint64
	offset int64
}

// markEvery is the least number of bytes between two marks.
const markEvery = 256 << 10

func (s *segment) mark(number uint64, offset int64) {
	if n := len(s.marks); n == 0 || offset-s.marks[n-1].offset >= markEvery {
		s.marks = append(s.marks, mark{number, offset})
	}
}

// seek returns the nearest known offset at or before the commit.
func (s *segment) seek(number uint64) (offset int64, known bool) {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].number > number })
	if i == 0 {
		return segmentHeaderSize, false
	}
	return s.marks[i-1].offset, true
}

const segmentSuffix = ".log"

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

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
