package wire

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// Appending in protobuf's form. A zero value is left out, as proto3 has it.

func appendTag(dst []byte, field, typ uint32) []byte {
	return binary.AppendUvarint(dst, uint64(field<<3|typ))
}

func appendUint(dst []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.AppendUvarint(appendTag(dst, field, typeVarint), v)
}

func appendBool(dst []byte, field uint32, v bool) []byte {
	if !v {
		return dst
	}
	return append(appendTag(dst, field, typeVarint), 1)
}

func appendFixed64(dst []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendTag(dst, field, typeFixed64), v)
}

func appendBytes(dst []byte, field uint32, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}

func appendString(dst []byte, field uint32, v string) []byte {
	if v == "" {
		return dst
	}
	return appendItem(dst, field, v)
}

// appendItem writes an element of a repeated field or of a map: also when it is empty.
func appendItem(dst []byte, field uint32, v string) []byte {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}

// appendBytesItem writes an element of a repeated field: also when it is empty.
func appendBytesItem(dst []byte, field uint32, v []byte) []byte {
	dst = binary.AppendUvarint(appendTag(dst, field, typeBytes), uint64(len(v)))
	return append(dst, v...)
}

// appendHash leaves an all-zero hash out.
func appendHash(dst []byte, field uint32, hash *[32]byte) []byte {
	if *hash == [32]byte{} {
		return dst
	}
	return appendBytes(dst, field, hash[:])
}

// appendMap writes the entries by ascending key, so that equal maps are equal bytes.
func appendMap(dst []byte, field uint32, m map[string]string) []byte {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var start int
		dst, start = begin(dst, field)
		dst = appendItem(dst, 1, k)
		dst = appendItem(dst, 2, m[k])
		dst = end(dst, start)
	}
	return dst
}

// begin opens a nested message: it writes the tag and one byte for the length,
// which end widens where the message turns out to need more.
func begin(dst []byte, field uint32) (_ []byte, start int) {
	dst = append(appendTag(dst, field, typeBytes), 0)
	return dst, len(dst)
}

func end(dst []byte, start int) []byte {
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

// sizeVarint is how many bytes a varint takes.
func sizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// sizeUint is what appendUint writes for a field below 16.
func sizeUint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + sizeVarint(v)
}
