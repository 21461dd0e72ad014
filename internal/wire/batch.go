package wire

import (
	"encoding/binary"
	"fmt"
)

// Fields of a Batch, by their protobuf numbers. Signals have a ready tag.
const (
	fieldGap    = 5
	fieldSignal = 6
	tagSignal   = fieldSignal<<3 | typeBytes
)

// AppendBatch appends a Batch frame with encoded signals.
func AppendBatch(dst []byte, b *Batch) []byte {
	dst, start := openMessage(dst, uint32(KindBatch))
	dst = appendBatchFields(dst, b.StreamKey, b.First, b.NowMs)
	if b.Gap != nil {
		dst = appendMessage(dst, fieldGap, b.Gap, codeGap)
	}
	for i := range b.Signals {
		dst = AppendSignal(dst, &b.Signals[i])
	}
	return closeMessage(dst, start)
}

// AppendBatchHeader appends the part of a Batch frame before its signals. The caller then appends signals of
// signalBytes bytes by AppendSignal, by ascending number. So a spool keeps signals encoded and copies them
// once.
func AppendBatchHeader(dst []byte, key StreamKey, first, nowMs uint64, signalBytes int) []byte {
	var room [48]byte
	header := appendBatchFields(room[:0], key, first, nowMs)
	dst = appendFrameHeader(dst, KindBatch, len(header)+signalBytes)
	return append(dst, header...)
}

// appendBatchFields appends the fields of a batch that come before its results.
func appendBatchFields(dst []byte, key StreamKey, first, nowMs uint64) []byte {
	dst = appendStreamKey(dst, key)
	dst = appendUint(dst, 3, first)
	return appendUint(dst, 4, nowMs)
}

// BatchHeader holds the fields of a Batch without its signals.
type BatchHeader struct {
	StreamKey
	First   uint64
	NowMs   uint64
	Signals int  // how many follow
	Gap     *Gap // instead of signals
}

// Last returns the highest sequence number of the batch.
func (h *BatchHeader) Last() uint64 {
	if h.Gap != nil {
		return h.Gap.Last
	}
	return h.First + uint64(h.Signals) - 1
}

// BatchReader decodes the results and other signals of a Batch one after the other. A signal is a numbered message of
// an agent, such as a result. Reset reads the header, counts the signals and checks that they are delimited; Next
// decodes one by one. Use one reader again and again.
type BatchReader struct {
	BatchHeader
	gap  Gap
	body []byte
	raw  []byte
	at   int
	err  error
}

// Reset makes the reader start on another Batch frame. The reader and the signals that it returns alias body.
func (r *BatchReader) Reset(body []byte) error {
	r.BatchHeader, r.body, r.raw, r.at, r.err = BatchHeader{}, body, nil, 0, nil
	f := fields{message: "Batch"}
	for i := 0; i < len(body); {
		if body[i] == tagSignal {
			size, n := uvarint(body, i+1)
			if n < 0 || size > uint64(len(body)-n) {
				return fmt.Errorf("decode Batch.signals: %w: element %d is cut short", ErrMalformed, r.Signals)
			}
			r.Signals++
			i = n + int(size)
			continue
		}
		f.rest = body[i:]
		if !f.next() {
			break
		}
		i = len(body) - len(f.rest)
		switch f.num {
		case 1, 2:
			f.streamKey(&r.StreamKey)
		case 3:
			r.First = f.uint("first", maxNumber)
		case 4:
			r.NowMs = f.uint64("now_ms")
		case fieldGap:
			r.gap = nested(&f, "gap", "Gap", codeGap)
			r.Gap = &r.gap
		case fieldSignal: // not of the tag above
			f.expect("signals", typeBytes)
		}
		if f.err != nil {
			break
		}
	}
	switch {
	case f.err != nil:
	case r.First == 0:
		f.fail("first", "numbers begin at 1")
	case r.Signals > MaxSignals:
		f.fail("signals", "%d, at most %d", r.Signals, MaxSignals)
	case r.Gap != nil && r.Signals > 0:
		f.fail("gap", "beside signals")
	case r.Gap != nil && r.gap.Last < r.First:
		f.fail("gap", "ends at %d, before first %d", r.gap.Last, r.First)
	case r.Gap == nil && r.Signals == 0:
		f.fail("signals", "none, and no gap")
	}
	r.err = f.err
	return f.err
}

// Next decodes the next signal (such as a result) of the batch. Its Body is a slice of the batch. It returns false at
// the end and at a malformed signal; Err returns nil at the end.
func (r *BatchReader) Next(s *Signal) bool {
	body, i := r.body, r.at
	for r.err == nil && i < len(body) {
		if body[i] == tagSignal {
			size, n := uvarint(body, i+1) // Reset has checked it
			r.at = n + int(size)
			r.raw = body[n:r.at]
			r.err = s.Decode(r.raw)
			return r.err == nil
		}
		f := fields{message: "Batch", rest: body[i:]}
		if !f.next() {
			r.err = f.err
			break
		}
		i = len(body) - len(f.rest)
	}
	r.at = i
	return false
}

// Raw returns the encoded bytes of the signal that Next has decoded last.
func (r *BatchReader) Raw() []byte { return r.raw }

// Err returns the error that ended Next early, or nil.
func (r *BatchReader) Err() error { return r.err }

// SkipDamaged leaves out a signal that Next could not decode, and lets Next continue.
func (r *BatchReader) SkipDamaged() { r.err = nil }

// Decode decodes the body of a Batch frame, with all its signals. Bodies alias the input. Hot paths use BatchReader.
func (b *Batch) Decode(body []byte) error {
	var r BatchReader
	*b = Batch{Signals: b.Signals[:0]}
	if err := r.Reset(body); err != nil {
		return err
	}
	b.StreamKey, b.First, b.NowMs, b.Gap = r.StreamKey, r.First, r.NowMs, r.Gap
	var s Signal
	for r.Next(&s) {
		b.Signals = append(b.Signals, s)
	}
	return r.Err()
}

// FrameKind returns the kind of message in a frame, and the encoded body. The body is a slice of data. Numbers 1 to 15
// are messages, of which a frame holds exactly one; an unknown one is returned as it is, for the receiver to ignore.
// Envelope fields from 16 on are skipped.
func FrameKind(data []byte) (Kind, []byte, error) {
	if len(data) > MaxFrame {
		return 0, nil, fmt.Errorf("decode Frame: %w: %d bytes, at most %d", ErrMalformed, len(data), MaxFrame)
	}
	var kind Kind
	var body []byte
	f := fields{message: "Frame", rest: data}
	for f.next() {
		if f.num > 15 {
			continue
		}
		if !f.expect("message", typeBytes) {
			break
		}
		if kind != 0 {
			f.fail("message", "more than one")
			break
		}
		kind, body = Kind(f.num), f.bytes
	}
	if f.err == nil && kind == 0 {
		f.fail("message", "none")
	}
	if f.err != nil {
		return 0, nil, f.err
	}
	return kind, body, nil
}

// SplitFrame returns the first of several frames in data, and the rest. An example is a stored assignment in parts.
func SplitFrame(data []byte) (frame, rest []byte, err error) {
	f := fields{message: "Frame", rest: data}
	if !f.next() {
		if f.err == nil {
			f.fail("message", "none")
		}
		return nil, nil, f.err
	}
	n := len(data) - len(f.rest)
	return data[:n:n], f.rest, nil
}

// appendFrameHeader appends the frame's kind and the length of its body.
func appendFrameHeader(dst []byte, kind Kind, size int) []byte {
	return binary.AppendUvarint(append(dst, byte(kind)<<3|typeBytes), uint64(size))
}
