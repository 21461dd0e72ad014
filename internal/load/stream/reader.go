package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/s2"

	"github.com/muster-fleet/muster/internal/model"
)

// Reader reads a file. Its errors are of class Invalid and name the offset of the fault.
type Reader struct {
	Head Head

	in     io.ReaderAt
	head   int64 // offset of the head's block
	packed []byte
	block  []byte
	list   []Signal
}

// Open opens a file and reads its head; the caller closes it.
func Open(path string) (*Reader, io.Closer, error) {
	file, err := os.Open(path)
	if err != nil {
		if inner := (*os.PathError)(nil); errors.As(err, &inner) {
			err = inner.Err // whoever names the file names it in the message
		}
		return nil, nil, model.Errorf(model.NotFound, "the stream cannot be read: %w", err).WithHint("muster load record -o FILE makes one")
	}
	info, err := file.Stat()
	var r *Reader
	if err == nil {
		r, err = NewReader(file, info.Size())
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return r, file, nil
}

// NewReader reads the head from a reader; Each reads the signals.
func NewReader(in io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{in: in}
	first := make([]byte, min(size, int64(len(magic))))
	if err := r.read(first, 0); err != nil {
		return nil, err
	}
	if string(first) != magic {
		return nil, notStream(first)
	}
	trailer := make([]byte, trailerSize)
	end := size - trailerSize
	if end < int64(len(magic)+blockHeaderSize) {
		return nil, damaged(size, errShort)
	}
	if err := r.read(trailer, end); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	r.head = int64(le.Uint64(trailer))
	if string(trailer[12:]) != trailing || crc32.Checksum(trailer[:8], castagnoli) != le.Uint32(trailer[8:]) || r.head < int64(len(magic)) || r.head > end-blockHeaderSize {
		return nil, damaged(end, errors.New("it has no end: it was cut short, or is still being written"))
	}
	count, next, err := r.load(r.head, end, maxHead)
	if err != nil {
		return nil, err
	}
	h, err := decodeHead(r.block)
	if err == nil && (count != 0 || next != end) {
		err = errMalformed
	}
	if err != nil {
		return nil, damaged(r.head, err)
	}
	r.Head = *h
	return r, nil
}

// Each calls fn with all signals in order, some thousands at a time; fn must not keep them.
func (r *Reader) Each(fn func([]Signal) error) error {
	at, seen, late := uint32(0), uint64(0), uint64(0)
	for offset := int64(len(magic)); offset < r.head; {
		count, next, err := r.load(offset, r.head, blockSignals*maxSignal)
		if err != nil {
			return err
		}
		r.list = r.list[:0]
		for rest := r.block; err == nil && len(rest) > 0; {
			var s Signal
			if rest, err = decodeSignal(rest, at, &s); err == nil && !r.Head.fits(&s) {
				err = errOrder
			}
			at = s.At
			if r.list = append(r.list, s); s.Late {
				late++
			}
		}
		if err == nil && (count == 0 || int(count) != len(r.list)) {
			err = errMalformed
		}
		if err != nil {
			return damaged(offset, err)
		}
		seen += uint64(count)
		if err := fn(r.list); err != nil {
			return err
		}
		offset = next
	}
	if seen != r.Head.Signals || late != r.Head.Late {
		return damaged(r.head, errOrder)
	}
	return nil
}

// fits reports whether a signal's node and check are within the head's counts.
func (h *Head) fits(s *Signal) bool {
	return int64(s.At) <= h.Length.Milliseconds() && int(s.Node) < h.Nodes && int(s.Check) < len(h.Checks) && int(s.Output) <= h.Longest
}

// load reads the block at offset, which ends before end, into r.block.
func (r *Reader) load(offset, end int64, most uint32) (count uint32, next int64, err error) {
	var header [blockHeaderSize]byte
	if end-offset < blockHeaderSize {
		return 0, 0, damaged(offset, errShort)
	}
	if err := r.read(header[:], offset); err != nil {
		return 0, 0, err
	}
	le := binary.LittleEndian
	packed, whole, count := le.Uint32(header[:]), le.Uint32(header[4:]), le.Uint32(header[8:])
	next = offset + blockHeaderSize + int64(packed)
	switch {
	case next > end:
		return 0, 0, damaged(offset, errShort)
	case int(packed) > s2.MaxEncodedLen(int(most)):
		return 0, 0, damaged(offset, errMalformed)
	}
	if cap(r.packed) < int(packed) {
		r.packed = make([]byte, packed)
	}
	content := r.packed[:packed]
	if err := r.read(content, offset+blockHeaderSize); err != nil {
		return 0, 0, err
	}
	if sumOf(header[:], content) != le.Uint32(header[12:]) {
		return 0, 0, damaged(offset, errChecksum)
	}
	size, err := s2.DecodedLen(content)
	if err != nil || size != int(whole) || whole > most {
		return 0, 0, damaged(offset, errMalformed)
	}
	if r.block, err = s2.Decode(r.block[:cap(r.block)], content); err != nil {
		return 0, 0, damaged(offset, errMalformed)
	}
	return count, next, nil
}

// read reads bytes at an offset.
func (r *Reader) read(dst []byte, offset int64) error {
	n, err := r.in.ReadAt(dst, offset)
	if n == len(dst) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return damaged(offset+int64(n), errShort)
	}
	return fmt.Errorf("read stream: %w", err)
}
