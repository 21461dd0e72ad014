package prep

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// State has the values that the preprocessing steps of an item remember between runs. For each such step it has the
// last value and its time. The zero State remembers nothing.
type State struct {
	first rememberedValue
	more  []rememberedValue // of the second remembering step and later ones
}

// rememberedValue has the last value that one preprocessing step remembers, with the value's time. Before the first value it
// has the kind None.
type rememberedValue struct {
	at    int64 // nanoseconds since 1970
	value item.Value
}

// memoryOf returns the memory of one step, by the step's number among all steps with a memory.
func (s *State) memoryOf(i, n int) *rememberedValue {
	if i == 0 {
		return &s.first
	}
	if len(s.more) < n-1 {
		s.more = append(make([]rememberedValue, 0, n-1), s.more...)[:n-1]
	}
	return &s.more[i-1]
}

// reset deletes all remembered values, as Zabbix does when a step fails
func (s *State) reset() {
	if s != nil {
		*s = State{}
	}
}

// Size returns the approximate number of bytes that the State uses on the heap
func (s *State) Size() int {
	size := len(s.first.value.String())
	for i := range s.more {
		size += 40 + len(s.more[i].value.String())
	}
	return size
}

// Append encodes the values that the steps remember, and appends the bytes to dst. The code has the number of
// remembered values, then kind, time and value of each. Times are varints, numbers 8 bytes, texts have their
// length in front.
func (s *State) Append(dst []byte) []byte {
	n := 1 + len(s.more)
	if n == 1 && s.first.value.Kind() == item.None {
		n = 0
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	for i := range n {
		m := s.memoryOf(i, n)
		dst = append(dst, byte(m.value.Kind()))
		switch m.value.Kind() {
		case item.None:
			continue
		case item.FloatValue:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(m.value.Float()))
		case item.UnsignedValue:
			dst = binary.LittleEndian.AppendUint64(dst, m.value.Unsigned())
		case item.TextValue:
			dst = binary.AppendUvarint(dst, uint64(len(m.value.String())))
			dst = append(dst, m.value.String()...)
		}
		dst = binary.AppendVarint(dst, m.at)
	}
	return dst
}

var errState = errors.New("the state of preprocessing is damaged")

// DecodeState decodes a state that Append has encoded, and returns the bytes after the state
func DecodeState(data []byte) (s State, rest []byte, err error) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n > maxSteps {
		return s, nil, errState
	}
	data = data[size:]
	for i := range int(n) {
		m := s.memoryOf(i, int(n))
		if len(data) == 0 {
			return s, nil, errState
		}
		kind := item.Kind(data[0])
		data = data[1:]
		switch kind {
		case item.None:
			continue
		case item.FloatValue, item.UnsignedValue:
			if len(data) < 8 {
				return s, nil, errState
			}
			bits := binary.LittleEndian.Uint64(data)
			data = data[8:]
			m.value = item.FromUnsigned(bits)
			if kind == item.FloatValue {
				m.value = item.FromFloat(math.Float64frombits(bits))
			}
		case item.TextValue:
			length, size := binary.Uvarint(data)
			if size <= 0 || length > uint64(len(data)-size) {
				return s, nil, errState
			}
			m.value = item.FromText(strings.Clone(string(data[size : size+int(length)])))
			data = data[size+int(length):]
		default:
			return s, nil, errState
		}
		if m.at, size = binary.Varint(data); size <= 0 {
			return s, nil, errState
		}
		data = data[size:]
	}
	return s, data, nil
}
