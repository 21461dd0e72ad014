package wire

import (
	"encoding/binary"

	"github.com/muster-fleet/muster/internal/model"
)

// Result is the body of SignalResult: one run of a check.
type Result struct {
	Status     model.Status
	DurationMs uint32
	Output     []byte
	Cut        uint64 // bytes of output that were cut away
	Extra      []byte // encoded Extra, as it came: see DecodeExtra
}

// Fields of a Result; the fields of an Extra come last.
const (
	fieldHook     = 5
	fieldValue    = 6
	fieldPipeline = 7

	tagStatus   = 1<<3 | typeVarint
	tagDuration = 2<<3 | typeVarint
	tagOutput   = 3<<3 | typeBytes
	tagCut      = 4<<3 | typeVarint
	tagHook     = fieldHook<<3 | typeBytes
	tagValue    = fieldValue<<3 | typeBytes
	tagPipeline = fieldPipeline<<3 | typeBytes
)

// ResultSignal returns s as a signal with the body r, which it encodes.
func ResultSignal(s Signal, r Result) Signal {
	s.Kind, s.Body = SignalResult, AppendResult(nil, &r)
	return s
}

// Result decodes the body of s, which is a SignalResult.
func (s *Signal) Result() (r Result, err error) {
	err = r.Decode(s.Body)
	return r, err
}

// AppendResult writes r as the body of a signal.
func AppendResult(dst []byte, r *Result) []byte {
	if r.Status != 0 {
		dst = append(dst, tagStatus, byte(r.Status))
	}
	if r.DurationMs != 0 {
		dst = binary.AppendUvarint(append(dst, tagDuration), uint64(r.DurationMs))
	}
	if len(r.Output) > 0 {
		dst = binary.AppendUvarint(append(dst, tagOutput), uint64(len(r.Output)))
		dst = append(dst, r.Output...)
	}
	if r.Cut != 0 {
		dst = binary.AppendUvarint(append(dst, tagCut), r.Cut)
	}
	return append(dst, r.Extra...)
}

// Decode reads the body of a signal, which Output and Extra alias.
func (r *Result) Decode(body []byte) error {
	*r = Result{}
	if r.decodeOrdered(body) {
		return nil
	}
	return r.decodeFields(body)
}

func (r *Result) decodeFields(body []byte) error {
	*r = Result{}
	f := fields{message: "Result", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			r.Status = model.Status(f.uint("status", uint64(model.Unknown)))
		case 2:
			r.DurationMs = f.uint32("duration_ms")
		case 3:
			r.Output = f.raw("output", MaxFrame)
		case 4:
			r.Cut = f.uint64("cut")
		case fieldHook, fieldValue, fieldPipeline:
			if f.expect("hooks, values or pipelines", typeBytes) {
				r.Extra = appendBytesItem(r.Extra, uint32(f.num), f.bytes)
			}
		}
	}
	return f.err
}

// decodeOrdered reads fields in ascending order, as AppendResult writes them. It returns
// false for all other bytes, which decodeFields decodes or refuses with the fault.
func (r *Result) decodeOrdered(data []byte) bool {
	i := 0
	if i+1 < len(data) && data[i] == tagStatus {
		if data[i+1] > byte(model.Unknown) {
			return false
		}
		r.Status = model.Status(data[i+1])
		i += 2
	}
	if i < len(data) && data[i] == tagDuration {
		v, n := uvarint(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		r.DurationMs = uint32(v)
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
			r.Output = data[i : i+int(size) : i+int(size)]
			i += int(size)
		}
	}
	if i < len(data) && data[i] == tagCut {
		if r.Cut, i = uvarintLong(data, i+1); i < 0 {
			return false
		}
	}
	if i == len(data) {
		return true
	}
	if extras(data[i:]) != len(data)-i {
		return false
	}
	r.Extra = data[i:len(data):len(data)]
	return true
}
