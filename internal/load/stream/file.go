package stream

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/muster-fleet/muster/internal/model"
)

// A file is a ZIP archive with two members: the signals, and behind them the head, as JSON. A signal is four uvarints:
// milliseconds since the one before, node, check, and the length of the output times eight plus four if it was late plus the status.
const (
	signalsName = "signals"
	headName    = "head.json"

	maxHead  = 128 << 20 // bytes of a head: a million checks have sixty each
	maxCount = 1<<31 - 1
	atOnce   = 4096 // signals in a call of Each
)

// Writer writes a file in order.
type Writer struct {
	archive *zip.Writer
	out     *bufio.Writer // of the signals
	at      uint32        // of the last signal
}

// NewWriter begins a file.
func NewWriter(out io.Writer) (*Writer, error) {
	archive := zip.NewWriter(out)
	signals, err := archive.Create(signalsName)
	if err != nil {
		return nil, fmt.Errorf("write stream: %w", err)
	}
	return &Writer{archive: archive, out: bufio.NewWriterSize(signals, 64<<10)}, nil
}

// Add appends a signal; times must not decrease.
func (w *Writer) Add(s *Signal) error {
	if s.At < w.at {
		panic("BUG: a stream whose time goes back")
	}
	data := binary.AppendUvarint(w.out.AvailableBuffer(), uint64(s.At-w.at))
	data = binary.AppendUvarint(data, uint64(s.Node))
	data = binary.AppendUvarint(data, uint64(s.Check))
	said := uint64(s.Output)<<3 | uint64(s.Status)&3
	if s.Late {
		said |= 4
	}
	w.at = s.At
	if _, err := w.out.Write(binary.AppendUvarint(data, said)); err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	return nil
}

// Close ends the file with its head, whose version it sets.
func (w *Writer) Close(h *Head) error {
	err := w.out.Flush()
	if err == nil {
		var head io.Writer
		if head, err = w.archive.Create(headName); err == nil {
			h.Version = Version
			err = json.NewEncoder(head).Encode(h)
		}
	}
	if err == nil {
		err = w.archive.Close()
	}
	if err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	return nil
}

// Reader reads a file. Its errors are of class Invalid.
type Reader struct {
	Head Head

	archive *zip.Reader
}

// Open opens a file and reads its head; the caller closes it.
func Open(path string) (*Reader, io.Closer, error) {
	file, err := os.Open(path)
	if err != nil {
		if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
			err = inner.Err // whoever names the file names it in the message
		}
		return nil, nil, model.Errorf(model.NotFound, "the stream cannot be read: %w", err).WithHint("muster load record --out FILE makes one")
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
	archive, err := zip.NewReader(in, size)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "this is no recorded stream, or it was cut short, or it is still being written: %w", err).WithHint("muster load record --out FILE makes one")
	}
	r := &Reader{archive: archive}
	head, err := archive.Open(headName)
	if err != nil {
		return nil, damaged(err)
	}
	defer head.Close()
	err = json.NewDecoder(io.LimitReader(head, maxHead)).Decode(&r.Head)
	if err == nil {
		_, err = io.Copy(io.Discard, head) // to its checksum
	}
	h := &r.Head
	switch {
	case err != nil:
		return nil, damaged(err)
	case h.Version != Version:
		return nil, model.Errorf(model.Invalid, "the stream is written as %q, and this version of Muster reads %s", h.Version, Version).WithHint("record it again with this version, or use the later one")
	case h.Signals == 0, h.Length <= 0 || h.Length > MaxLength, h.Nodes <= 0 || h.Nodes > maxCount, h.Most <= 0 || h.Most > len(h.Checks),
		h.States < max(h.Nodes, len(h.Checks)), h.Longest < 0 || h.Longest > model.MaxOutputBytes:
		return nil, damaged(errHead)
	}
	return r, nil
}

// Each calls fn with all signals in order, some thousands at a time; fn must not keep them.
func (r *Reader) Each(fn func([]Signal) error) error {
	file, err := r.archive.Open(signalsName)
	if err != nil {
		return damaged(err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	list := make([]Signal, 0, atOnce)
	at, seen, late := uint32(0), uint64(0), uint64(0)
	for {
		s, err := r.signal(in, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return damaged(err)
		}
		if err == nil {
			at, seen = s.At, seen+1
			if list = append(list, s); s.Late {
				late++
			}
		}
		if len(list) == atOnce || err != nil {
			if err := fn(list); err != nil {
				return err
			}
			list = list[:0]
		}
		if err != nil {
			break
		}
	}
	if seen != r.Head.Signals || late != r.Head.Late {
		return damaged(errHead)
	}
	return nil
}

var (
	errHead = errors.New("its head does not fit its signals")
	errCut  = errors.New("it ends within a signal")
)

// signal reads a signal after one at a time; io.EOF: there is none.
func (r *Reader) signal(in *bufio.Reader, at uint32) (s Signal, err error) {
	var v [4]uint64
	for i := range v {
		if v[i], err = binary.ReadUvarint(in); err != nil {
			if i > 0 && errors.Is(err, io.EOF) {
				err = errCut
			}
			return s, err
		}
	}
	h := &r.Head
	if v[0] > uint64(h.Length.Milliseconds())-uint64(at) || v[1] >= uint64(h.Nodes) || v[2] >= uint64(len(h.Checks)) || v[3]>>3 > uint64(h.Longest) {
		return s, errHead
	}
	return Signal{At: at + uint32(v[0]), Node: uint32(v[1]), Check: uint32(v[2]), Output: uint32(v[3] >> 3), Status: model.Status(v[3] & 3), Late: v[3]&4 != 0}, nil
}

// damaged returns the error of a file with wrong content.
func damaged(why error) error {
	return model.Errorf(model.Invalid, "the stream is damaged: %w", why).WithHint("copy it again, or record it again: muster load record --help")
}
