package wire

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// Appending in protobuf's form. A zero value is left out, as proto3 has it.

// appendTag appends a protobuf tag, which has field number and wire type.
func appendTag(dst []byte, field, typ uint32) []byte {
	return binary.AppendUvarint(dst, uint64(field<<3|typ))
}

// appendUint appends an unsigned varint field, or nothing for zero.
func appendUint(dst []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.AppendUvarint(appendTag(dst, field, typeVarint), v)
}

// appendBool appends a boolean field, or nothing for false.
func appendBool(dst []byte, field uint32, v bool) []byte {
	if !v {
		return dst
	}
	return append(appendTag(dst, field, typeVarint), 1)
}

// appendFixed64 appends a fixed64 field, or nothing for zero.
func appendFixed64(dst []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendTag(dst, field, typeFixed64), v)
}

// appendBytes appends a bytes field, or nothing for no bytes.
func appendBytes(dst []byte, field uint32, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}

// appendString appends a string field, or nothing for an empty string.
func appendString(dst []byte, field uint32, v string) []byte {
	if v == "" {
		return dst
	}
	return appendStringItem(dst, field, v)
}

// appendStringItem appends an element of a repeated string field or map, even an empty string.
func appendStringItem(dst []byte, field uint32, v string) []byte {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}

// appendFixed appends a bytes field of fixed length, or nothing if all bytes are zero.
func appendFixed(dst []byte, field uint32, b []byte) []byte {
	for _, c := range b {
		if c != 0 {
			return appendBytes(dst, field, b)
		}
	}
	return dst
}

// openMessage appends the start of a nested message, with space for its length. It writes the tag and reserves one
// byte for the length.
func openMessage(dst []byte, field uint32) (_ []byte, start int) {
	dst = append(appendTag(dst, field, typeBytes), 0)
	return dst, len(dst)
}

// closeMessage writes the length of a nested message, after all its fields, in front of the fields.
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

// uintFieldBytes returns the encoded size of an unsigned number field.
func uintFieldBytes(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + varintBytes(v)
}

// appendStreamKey appends which numbered sequence a batch belongs to, by stream id and queue. The queue is the lane.
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

// appendBytesItem appends one element of a repeated bytes field, even an empty element.
func appendBytesItem(dst []byte, field uint32, v []byte) []byte {
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}
