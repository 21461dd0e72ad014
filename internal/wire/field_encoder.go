package wire

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
)

// Appending in protobuf's form. A zero value is left out, as proto3 has it.

// appendTag appends a protobuf tag: field number and wire type.
func appendTag(dst []byte, field, typ uint32) []byte {
	return binary.AppendUvarint(dst, uint64(field<<3|typ))
}

// appendUint appends an unsigned varint field; zero is omitted.
func appendUint(dst []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.AppendUvarint(appendTag(dst, field, typeVarint), v)
}

// appendBool appends a boolean field; false is omitted.
func appendBool(dst []byte, field uint32, v bool) []byte {
	if !v {
		return dst
	}
	return append(appendTag(dst, field, typeVarint), 1)
}

// appendOptionalBool appends an optional bool field; nil is omitted.
func appendOptionalBool(dst []byte, field uint32, v *bool) []byte {
	if v == nil {
		return dst
	}
	b := byte(0)
	if *v {
		b = 1
	}
	return append(appendTag(dst, field, typeVarint), b)
}

// appendFixed64 appends a fixed64 field; zero is omitted.
func appendFixed64(dst []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendTag(dst, field, typeFixed64), v)
}

// appendBytes appends a bytes field; empty is omitted.
func appendBytes(dst []byte, field uint32, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}

// appendString appends a string field; empty is omitted.
func appendString(dst []byte, field uint32, v string) []byte {
	if v == "" {
		return dst
	}
	return appendStringItem(dst, field, v)
}

// appendOptionalString appends a string field, even empty; nil is omitted.
func appendOptionalString(dst []byte, field uint32, v *string) []byte {
	if v == nil {
		return dst
	}
	return appendStringItem(dst, field, *v)
}

// appendStringItem appends an element of a repeated string field or map, even if empty.
func appendStringItem(dst []byte, field uint32, v string) []byte {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}

// appendFixed appends a bytes field of fixed length; all zeroes are omitted.
func appendFixed(dst []byte, field uint32, b []byte) []byte {
	for _, c := range b {
		if c != 0 {
			return appendBytes(dst, field, b)
		}
	}
	return dst
}

// appendMap appends a map field in the order of its keys, so that equal maps have equal bytes.
func appendMap(dst []byte, field uint32, m map[string]string) []byte {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var start int
		dst, start = openMessage(dst, field)
		dst = appendStringItem(dst, 1, k)
		dst = appendStringItem(dst, 2, m[k])
		dst = closeMessage(dst, start)
	}
	return dst
}

// openMessage starts a nested message: it writes the tag and reserves one byte for the length.
func openMessage(dst []byte, field uint32) (_ []byte, start int) {
	dst = append(appendTag(dst, field, typeBytes), 0)
	return dst, len(dst)
}

// closeMessage writes the length of a nested message, after its content, into the place that openMessage reserved.
func closeMessage(dst []byte, start int) []byte {
	size := len(dst) - start
	if size < 0x80 {
		dst[start-1] = byte(size)
		return dst
	}
	var room [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(room[:], uint64(size))
	dst = append(dst, room[1:n]...)
	copy(dst[start-1+n:], dst[start:start+size])
	copy(dst[start-1:], room[:n])
	return dst
}

// varintBytes returns how many bytes a varint takes.
func varintBytes(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// uintFieldBytes returns how many bytes appendUint writes for a field number below 16.
func uintFieldBytes(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + varintBytes(v)
}

// appendStreamKey appends the stream id and the lane (live or backlog) as fields 1 and 2 of a message.
func appendStreamKey(dst []byte, k StreamKey) []byte {
	dst = appendFixed64(dst, 1, uint64(k.Stream))
	return appendUint(dst, 2, uint64(k.Lane))
}

// appendMessage appends x as a nested message field.
func appendMessage[T any](dst []byte, field uint32, x *T, content func([]byte, *T) []byte) []byte {
	dst, start := openMessage(dst, field)
	return closeMessage(content(dst, x), start)
}

// appendMessages appends each element of a repeated message field.
func appendMessages[T any](dst []byte, field uint32, list []T, content func([]byte, *T) []byte) []byte {
	for i := range list {
		dst = appendMessage(dst, field, &list[i], content)
	}
	return dst
}

// appendStrings appends each element of a repeated string field.
func appendStrings(dst []byte, field uint32, list []string) []byte {
	for _, v := range list {
		dst = appendStringItem(dst, field, v)
	}
	return dst
}

// appendNumbers appends a repeated number field in protobuf's packed form.
func appendNumbers[T ~uint32](dst []byte, field uint32, list []T) []byte {
	if len(list) == 0 {
		return dst
	}
	dst, in := openMessage(dst, field)
	for _, n := range list {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return closeMessage(dst, in)
}

// appendDouble appends a floating-point field; zero is omitted.
func appendDouble(dst []byte, field uint32, v float64) []byte {
	return appendFixed64(dst, field, math.Float64bits(v))
}

// appendOptionalDouble appends a floating-point field, even zero; nil is omitted.
func appendOptionalDouble(dst []byte, field uint32, v *float64) []byte {
	if v == nil {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendTag(dst, field, typeFixed64), math.Float64bits(*v))
}

// appendTime appends a time field in Unix milliseconds; the zero time is omitted.
func appendTime(dst []byte, field uint32, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return appendUint(dst, field, uint64(t.UnixMilli()))
}

// appendHex appends a bytes field from hexadecimal digits.
func appendHex(dst []byte, field uint32, digits string) []byte {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic("BUG: encode hexadecimal digits: " + err.Error())
	}
	return appendBytes(dst, field, b)
}

// appendStatusName appends a status, given by name, as its number; an empty name is omitted, like OK.
func appendStatusName(dst []byte, field uint32, name string) []byte {
	status, _ := model.ParseStatus(name)
	return appendUint(dst, field, uint64(status))
}

// appendSeverityList appends a bytes field with one byte for each severity in a list.
func appendSeverityList(dst []byte, field uint32, list []model.Severity) []byte {
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(list)))
	for _, s := range list {
		dst = append(dst, byte(s))
	}
	return dst
}

// appendBytesItem appends an element of a repeated bytes field, even if empty.
func appendBytesItem(dst []byte, field uint32, v []byte) []byte {
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}
