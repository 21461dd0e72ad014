package wire

import (
	"encoding/binary"
	"fmt"
)

// FrameKind opens the envelope: which message, and its encoded body (an alias of
// data). Numbers 1 to 15 are messages, of which a frame holds exactly one; an
// unknown one is returned as it is, for the receiver to ignore. Envelope fields
// from 16 on are skipped.
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

// SplitFrame cuts the first frame off data, which holds several in a row, such as the parts of a
// stored assignment.
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

// appendFrameHeader writes the envelope for a body of a known size.
func appendFrameHeader(dst []byte, kind Kind, size int) []byte {
	return binary.AppendUvarint(append(dst, byte(kind)<<3|typeBytes), uint64(size))
}
