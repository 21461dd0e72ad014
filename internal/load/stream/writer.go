package stream

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/s2"
)

// Writer writes a file in order.
type Writer struct {
	out    io.Writer
	offset int64
	at     uint32 // of the last signal
	count  uint32 // signals in block
	block  []byte
	packed []byte
}

// NewWriter begins a file.
func NewWriter(out io.Writer) (*Writer, error) {
	w := &Writer{out: out}
	return w, w.write([]byte(magic))
}

// Add appends a signal; times must not decrease.
func (w *Writer) Add(s *Signal) error {
	if s.At < w.at {
		panic("BUG: a stream whose time goes back")
	}
	w.block = appendSignal(w.block, w.at, s)
	w.at = s.At
	if w.count++; w.count == blockSignals {
		return w.flush()
	}
	return nil
}

// Close ends the file with its head.
func (w *Writer) Close(h *Head) error {
	if w.count > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	le := binary.LittleEndian
	trailer := le.AppendUint64(nil, uint64(w.offset))
	trailer = le.AppendUint32(trailer, crc32.Checksum(trailer, castagnoli))
	w.block = appendHead(w.block, h)
	if err := w.flush(); err != nil {
		return err
	}
	return w.write(append(trailer, trailing...))
}

// flush writes the present block.
func (w *Writer) flush() error {
	le := binary.LittleEndian
	content := s2.EncodeBetter(w.packed, w.block)
	w.packed = content[:cap(content)]
	header := le.AppendUint32(make([]byte, 0, blockHeaderSize), uint32(len(content)))
	header = le.AppendUint32(header, uint32(len(w.block)))
	header = le.AppendUint32(header, w.count)
	header = le.AppendUint32(header, sumOf(header, content))
	w.block, w.count = w.block[:0], 0
	if err := w.write(header); err != nil {
		return err
	}
	return w.write(content)
}

// write writes bytes and counts them.
func (w *Writer) write(data []byte) error {
	n, err := w.out.Write(data)
	w.offset += int64(n)
	if err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	return nil
}
