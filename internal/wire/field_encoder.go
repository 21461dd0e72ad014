package wire

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
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

// appendStrings appends each element of a repeated string field.
func appendStrings(dst []byte, field uint32, list []string) []byte {
	for _, v := range list {
		dst = appendStringItem(dst, field, v)
	}
	return dst
}

// appendBytesItem appends an element of a repeated bytes field, even if empty.
func appendBytesItem(dst []byte, field uint32, v []byte) []byte {
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}
