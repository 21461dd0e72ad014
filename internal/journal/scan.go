package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
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
			list = append(list, &segment{path: filepath.Join(dir, name), first: first, last: first - 1})
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].first < list[j].first })
	return list, nil
}
