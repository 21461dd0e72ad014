package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// Field numbers and ready tags of the hot path.
const (
	fieldGap    = 5
	fieldSignal = 6

	tagSignal    = fieldSignal<<3 | typeBytes
	tagAt        = 1<<3 | typeVarint
	tagResult    = byte(SignalResult)<<3 | typeBytes
	tagKeepalive = byte(SignalKeepalive)<<3 | typeBytes
	tagChunk     = 1<<3 | typeVarint
	tagStatus    = 2<<3 | typeVarint
	tagDuration  = 3<<3 | typeVarint
	tagOutput    = 4<<3 | typeBytes
	tagCut       = 5<<3 | typeVarint
)

// AppendBatch writes a whole frame from decoded signals.
func AppendBatch(dst []byte, b *Batch) []byte {
	dst, start := begin(dst, uint32(KindBatch))
	dst = appendBatchFields(dst, b.StreamKey, b.First, b.NowMs)
	if b.Gap != nil {
		dst = appendGap(dst, b.Gap)
	}
	for i := range b.Signals {
		dst = AppendSignal(dst, &b.Signals[i])
	}
	return end(dst, start)
}

// AppendBatchHeader writes a whole frame but for signals of signalBytes in all,
// encoded by AppendSignal, which the caller appends next, in the order of their
// numbers. So a spool keeps signals encoded and copies them once.
func AppendBatchHeader(dst []byte, key StreamKey, first, nowMs uint64, signalBytes int) []byte {
	var room [48]byte
	header := appendBatchFields(room[:0], key, first, nowMs)
	dst = appendFrameHeader(dst, KindBatch, len(header)+signalBytes)
	return append(dst, header...)
}

func appendBatchFields(dst []byte, key StreamKey, first, nowMs uint64) []byte {
	dst = appendKey(dst, key)
	dst = appendUint(dst, 3, first)
	return appendUint(dst, 4, nowMs)
}

// AppendSignal writes one signal as its field of a Batch.
func AppendSignal(dst []byte, s *Signal) []byte {
	at := sizeUint(s.AtMs)
	if s.Kind == SignalKeepalive {
		dst = append(dst, tagSignal, byte(at+2))
		dst = appendUint(dst, 1, s.AtMs)
		return append(dst, tagKeepalive, 0)
	}
	inner := sizeUint(uint64(s.Chunk)) + sizeUint(uint64(s.Status)) + sizeUint(uint64(s.DurationMs)) + sizeUint(s.Cut)
	if len(s.Output) > 0 {
		inner += 1 + sizeVarint(uint64(len(s.Output))) + len(s.Output)
	}
	dst = append(dst, tagSignal)
	dst = binary.AppendUvarint(dst, uint64(at+1+sizeVarint(uint64(inner))+inner))
	if s.AtMs != 0 {
		dst = binary.AppendUvarint(append(dst, tagAt), s.AtMs)
	}
	dst = binary.AppendUvarint(append(dst, tagResult), uint64(inner))
	if s.Chunk != 0 {
		dst = binary.AppendUvarint(append(dst, tagChunk), uint64(s.Chunk))
	}
	if s.Status != 0 {
		dst = append(dst, tagStatus, byte(s.Status))
	}
	if s.DurationMs != 0 {
		dst = binary.AppendUvarint(append(dst, tagDuration), uint64(s.DurationMs))
	}
	if len(s.Output) > 0 {
		dst = binary.AppendUvarint(append(dst, tagOutput), uint64(len(s.Output)))
		dst = append(dst, s.Output...)
	}
	if s.Cut != 0 {
		dst = binary.AppendUvarint(append(dst, tagCut), s.Cut)
	}
	return dst
}

// BatchHeader is what a Batch says before its signals.
type BatchHeader struct {
	StreamKey
	First   uint64
	NowMs   uint64
	Signals int  // how many follow
	Gap     *Gap // instead of signals
}

// Last is the highest number that the batch covers.
func (h *BatchHeader) Last() uint64 {
	if h.Gap != nil {
		return h.Gap.Last
	}
	return h.First + uint64(h.Signals) - 1
}

// BatchReader walks an encoded Batch without allocating. Reset reads the header,
// counts the signals and checks that they are delimited; Next decodes one by one.
// Use one reader again and again.
type BatchReader struct {
	BatchHeader
	gap  Gap
	body []byte
	at   int
	err  error
}

// Reset begins with the body of a frame, which the reader and what it hands out
// alias.
func (r *BatchReader) Reset(body []byte) error {
	r.BatchHeader, r.body, r.at, r.err = BatchHeader{}, body, 0, nil
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
			f.key(&r.StreamKey)
		case 3:
			r.First = f.uint("first", maxNumber)
		case 4:
			r.NowMs = f.uint64("now_ms")
		case fieldGap:
			f.gap(&r.gap)
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

// Next decodes the next signal into s, whose Output aliases the batch. It returns
// false at the end and at something malformed; Err tells them apart.
func (r *BatchReader) Next(s *Signal) bool {
	body, i := r.body, r.at
	for r.err == nil && i < len(body) {
		if body[i] == tagSignal {
			size, n := uvarint(body, i+1) // Reset has checked it
			r.at = n + int(size)
			r.err = s.decode(body[n:r.at])
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

// Err is what ended Next before the last signal; nil where nothing did.
func (r *BatchReader) Err() error { return r.err }

// Decode fills b, reusing its Signals. Outputs alias the body. Hot paths use
// BatchReader.
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

// decode reads one signal. A kind that we do not know leaves Kind zero: it has a
// number like any other, so the receiver refuses it by that number.
func (s *Signal) decode(data []byte) error {
	*s = Signal{}
	if s.decodeOrdered(data) {
		return nil
	}
	*s = Signal{}
	for i := 0; i < len(data); {
		tag := data[i]
		switch tag {
		case tagAt:
			if s.AtMs, i = uvarint(data, i+1); i < 0 {
				return signalError("at_ms")
			}
		case tagResult, tagKeepalive:
			size, n := uvarint(data, i+1)
			if n < 0 || size > uint64(len(data)-n) {
				return signalError("kind")
			}
			if s.Kind != 0 {
				return fmt.Errorf("decode Signal.kind: %w: more than one", ErrMalformed)
			}
			s.Kind = SignalKind(tag >> 3)
			i = n + int(size)
			if s.Kind == SignalResult {
				if err := s.decodeResult(data[n:i]); err != nil {
					return err
				}
			}
		default:
			n, err := skip("Signal", data[i:], 1, uint64(SignalResult), uint64(SignalKeepalive))
			if err != nil {
				return err
			}
			i += n
		}
	}
	return nil
}

// decodeOrdered reads a result whose fields stand in ascending order and fill what
// encloses them, as AppendSignal writes it: the hot path. False sends everything else,
// also what is malformed, to the general way, which says what is wrong.
func (s *Signal) decodeOrdered(data []byte) bool {
	i := 0
	if i < len(data) && data[i] == tagAt {
		if s.AtMs, i = uvarintLong(data, 1); i < 0 {
			return false
		}
	}
	if i+2 > len(data) || data[i] != tagResult {
		return false
	}
	i++
	size := uint64(data[i])
	i++
	if size >= 0x80 {
		if size, i = uvarintLong(data, i-1); i < 0 {
			return false
		}
	}
	if size != uint64(len(data)-i) {
		return false
	}
	if i < len(data) && data[i] == tagChunk {
		v, n := uvarintLong(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		s.Chunk = model.ChunkID(v)
	}
	if i+1 < len(data) && data[i] == tagStatus {
		if data[i+1] > byte(model.Unknown) {
			return false
		}
		s.Status = model.Status(data[i+1])
		i += 2
	}
	if i < len(data) && data[i] == tagDuration {
		v, n := uvarintLong(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		s.DurationMs = uint32(v)
	}
	if i+1 < len(data) && data[i] == tagOutput {
		i++
		size := uint64(data[i])
		i++
		if size >= 0x80 {
			if size, i = uvarintLong(data, i-1); i < 0 {
				return false
			}
		}
		if size > uint64(len(data)-i) {
			return false
		}
		if size > 0 {
			s.Output = data[i : i+int(size) : i+int(size)]
			i += int(size)
		}
	}
	if i < len(data) && data[i] == tagCut {
		if s.Cut, i = uvarintLong(data, i+1); i < 0 {
			return false
		}
	}
	s.Kind = SignalResult
	return i == len(data)
}

func (s *Signal) decodeResult(data []byte) error {
	for i := 0; i < len(data); {
		var v uint64
		switch data[i] {
		case tagChunk:
			if v, i = uvarint(data, i+1); i < 0 || v > 1<<32-1 {
				return resultError("chunk")
			}
			s.Chunk = model.ChunkID(v)
		case tagStatus:
			if v, i = uvarint(data, i+1); i < 0 || v > uint64(model.Unknown) {
				return resultError("status")
			}
			s.Status = model.Status(v)
		case tagDuration:
			if v, i = uvarint(data, i+1); i < 0 || v > 1<<32-1 {
				return resultError("duration_ms")
			}
			s.DurationMs = uint32(v)
		case tagOutput:
			size, n := uvarint(data, i+1)
			if n < 0 || size > uint64(len(data)-n) {
				return resultError("output")
			}
			i = n + int(size)
			if size > 0 {
				s.Output = data[n:i:i]
			}
		case tagCut:
			if s.Cut, i = uvarint(data, i+1); i < 0 {
				return resultError("cut")
			}
		default:
			n, err := skip("Result", data[i:], 1, 2, 3, 4, 5)
			if err != nil {
				return err
			}
			i += n
		}
	}
	return nil
}

func signalError(field string) error {
	return fmt.Errorf("decode Signal.%s: %w", field, ErrMalformed)
}

func resultError(field string) error {
	return fmt.Errorf("decode Result.%s: %w", field, ErrMalformed)
}

// skip steps over one field that is not known; the known ones stand here only with
// a wire type that they do not have.
func skip(message string, data []byte, known ...uint64) (int, error) {
	f := fields{message: message, rest: data}
	if !f.next() {
		return 0, f.err
	}
	for _, k := range known {
		if f.num == k {
			return 0, fmt.Errorf("decode %s field %d: %w: wire type %d", message, k, ErrMalformed, f.typ)
		}
	}
	return len(data) - len(f.rest), nil
}

func appendGap(dst []byte, g *Gap) []byte {
	dst, start := begin(dst, fieldGap)
	dst = appendUint(dst, 1, g.Last)
	dst = appendString(dst, 2, g.Reason)
	for _, c := range g.Counts {
		var in int
		dst, in = begin(dst, 3)
		dst = appendUint(dst, 1, uint64(c.Chunk))
		dst = appendUint(dst, 2, c.Count)
		dst = end(dst, in)
	}
	return end(dst, start)
}

func (f *fields) gap(g *Gap) {
	*g = Gap{Counts: g.Counts[:0]}
	in := f.nested("gap", "Gap")
	for in.next() {
		switch in.num {
		case 1:
			g.Last = in.uint("last", maxNumber)
		case 2:
			g.Reason = in.string("reason", maxText)
		case 3:
			if in.room("counts", len(g.Counts), maxChunks) {
				g.Counts = append(g.Counts, in.gapCount())
			}
		}
	}
	f.done(&in)
}

func (f *fields) gapCount() (c GapCount) {
	in := f.nested("counts", "GapCount")
	for in.next() {
		switch in.num {
		case 1:
			c.Chunk = model.ChunkID(in.uint32("chunk"))
		case 2:
			c.Count = in.uint64("count")
		}
	}
	f.done(&in)
	return c
}
