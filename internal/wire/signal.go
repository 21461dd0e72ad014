package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// Ready tags of the hot path.
const (
	tagAt        = 1<<3 | typeVarint
	tagResult    = byte(SignalResult)<<3 | typeBytes
	tagKeepalive = byte(SignalKeepalive)<<3 | typeBytes
	tagChunk     = 1<<3 | typeVarint
	tagStatus    = 2<<3 | typeVarint
	tagDuration  = 3<<3 | typeVarint
	tagOutput    = 4<<3 | typeBytes
	tagCut       = 5<<3 | typeVarint
	tagNode      = 8<<3 | typeVarint
)

// AppendSignal writes one signal as its field of a Batch.
func AppendSignal(dst []byte, s *Signal) []byte {
	at := sizeUint(s.AtMs)
	if s.Kind == SignalKeepalive {
		dst = append(dst, tagSignal, byte(at+2))
		dst = appendUint(dst, 1, s.AtMs)
		return append(dst, tagKeepalive, 0)
	}
	inner := sizeUint(uint64(s.Chunk)) + sizeUint(uint64(s.Status)) + sizeUint(uint64(s.DurationMs)) + sizeUint(s.Cut) + sizeUint(uint64(s.Node))
	if len(s.Output) > 0 {
		inner += 1 + sizeVarint(uint64(len(s.Output))) + len(s.Output)
	}
	inner += len(s.Extra)
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
	dst = append(dst, s.Extra...)
	if s.Node != 0 {
		dst = binary.AppendUvarint(append(dst, tagNode), uint64(s.Node))
	}
	return dst
}

// AppendSpoken writes a signal as ProxiedResult.Signal has it: without what delimits it in a batch.
func AppendSpoken(dst []byte, s *Signal) []byte {
	from := len(dst)
	dst = AppendSignal(dst, s)
	head := 2 // its tag and its length
	for head != 1+sizeVarint(uint64(len(dst)-from-head)) {
		head++
	}
	return append(dst[:from], dst[from+head:]...)
}

// Decode reads one encoded signal, which Output aliases.
func (s *Signal) Decode(data []byte) error { return s.decode(data) }

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
	if i == len(data) {
		return true
	}
	beside := extras(data[i:])
	if beside < 0 {
		return false
	}
	if beside > 0 {
		s.Extra = data[i : i+beside : i+beside]
		i += beside
	}
	if i < len(data) && data[i] == tagNode {
		v, n := uvarintLong(data, i+1)
		if i = n; n < 0 || v > 1<<32-1 {
			return false
		}
		s.Node = model.NodeID(v)
	}
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
		case tagHook, tagValue, tagPipe:
			size, n := uvarint(data, i+1)
			if n < 0 || size > uint64(len(data)-n) {
				return resultError("hooks, values or pipelines")
			}
			s.Extra = append(s.Extra, data[i:n+int(size)]...)
			i = n + int(size)
		case tagNode:
			if v, i = uvarint(data, i+1); i < 0 || v > 1<<32-1 {
				return resultError("node")
			}
			s.Node = model.NodeID(v)
		default:
			n, err := skip("Result", data[i:], 1, 2, 3, 4, 5, fieldHook, fieldValue, 8, fieldPipe)
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
