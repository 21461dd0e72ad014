package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// ErrMalformed is the cause of every decoding error in package wire.
var ErrMalformed = errors.New("malformed")

// Protobuf's wire types of fields, which say how a value is encoded.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeFixed32 = 5
)

// uvarint decodes a varint (a number of variable length) from data at index i. n is the offset after the varint, or
// negative if it is malformed.
func uvarint(data []byte, i int) (v uint64, n int) {
	if i < len(data) && data[i] < 0x80 {
		return uint64(data[i]), i + 1
	}
	return uvarintLong(data, i)
}

// uvarintLong decodes a varint of several bytes fast, from eight bytes at once.
func uvarintLong(data []byte, i int) (v uint64, n int) {
	if uint(i) < uint(len(data)) && len(data)-i >= 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		if stop := ^x & 0x8080808080808080; stop != 0 {
			x &= stop ^ (stop - 1)
			x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
			x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
			return x&0x0fffffff | x&0x0fffffff00000000>>4, i + bits.TrailingZeros64(stop)>>3 + 1
		}
	}
	for shift := uint(0); i < len(data) && shift < 64; shift += 7 {
		b := uint64(data[i])
		i++
		v |= (b & 0x7f) << shift
		if b < 0x80 {
			if shift == 63 && b > 1 {
				return 0, -1
			}
			return v, i
		}
	}
	return 0, -1
}

// fields reads the fields of one encoded protobuf message one by one. After next, num and typ describe the present
// field, and value or bytes has its content, which the typed readers check. The first error ends the walk and stays in
// err.
type fields struct {
	message string
	rest    []byte
	num     uint64
	typ     uint8
	value   uint64
	bytes   []byte // aliases the input
	err     error
}

// next decodes the tag and value of the next field. It returns false at the end of the message or after an error.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.err != nil {
		return false
	}
	tag, i := uvarint(f.rest, 0)
	if i < 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
		f.err = fmt.Errorf("decode message %s: %w: invalid number or type of a field", f.message, ErrMalformed)
		return false
	}
	f.num, f.typ, f.bytes = tag>>3, uint8(tag&7), nil
	switch f.typ {
	case typeVarint:
		f.value, i = uvarint(f.rest, i)
	case typeFixed64:
		if len(f.rest)-i >= 8 {
			f.value = binary.LittleEndian.Uint64(f.rest[i:])
			i += 8
		} else {
			i = -1
		}
	case typeFixed32:
		if len(f.rest)-i >= 4 {
			f.value = uint64(binary.LittleEndian.Uint32(f.rest[i:]))
			i += 4
		} else {
			i = -1
		}
	case typeBytes:
		var size uint64
		size, i = uvarint(f.rest, i)
		if i >= 0 && size <= uint64(len(f.rest)-i) {
			f.bytes = f.rest[i : i+int(size) : i+int(size)]
			i += int(size)
		} else {
			i = -1
		}
	default: // groups are not ours
		i = -1
	}
	if i < 0 {
		f.err = fmt.Errorf("decode message %s: %w: invalid content in field %d", f.message, ErrMalformed, f.num)
		return false
	}
	f.rest = f.rest[i:]
	return true
}

// fail records an error about a field if no earlier error is recorded.
func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("decode field %s.%s: %w: %s", f.message, name, ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// expect reports whether the field has the expected wire type, and otherwise records an error.
func (f *fields) expect(name string, typ uint8) bool {
	if f.typ != typ {
		f.fail(name, "wire type %d, want %d", f.typ, typ)
		return false
	}
	return true
}

// uint reads an unsigned varint field, and records an error above the limit.
func (f *fields) uint(name string, limit uint64) uint64 {
	if !f.expect(name, typeVarint) {
		return 0
	}
	if f.value > limit {
		f.fail(name, "%d, at most %d", f.value, limit)
		return 0
	}
	return f.value
}

// uint32 reads a 32-bit varint field.
func (f *fields) uint32(name string) uint32 { return uint32(f.uint(name, 1<<32-1)) }

// uint64 reads a 64-bit varint field.
func (f *fields) uint64(name string) uint64 { return f.uint(name, 1<<64-1) }

// bool reads a boolean field.
func (f *fields) bool(name string) bool { return f.uint(name, 1<<64-1) != 0 }

// fixed64 reads a field that is always eight bytes long.
func (f *fields) fixed64(name string) uint64 {
	if !f.expect(name, typeFixed64) {
		return 0
	}
	return f.value
}

// raw returns the bytes of a field without a copy, or records an error above `limit` bytes.
func (f *fields) raw(name string, limit int) []byte {
	if !f.expect(name, typeBytes) {
		return nil
	}
	if len(f.bytes) > limit {
		f.fail(name, "%d bytes, at most %d", len(f.bytes), limit)
		return nil
	}
	if len(f.bytes) == 0 {
		return nil // as if it were absent
	}
	return f.bytes
}

// string reads a string field of at most `limit` bytes in valid UTF-8.
func (f *fields) string(name string, limit int) string {
	b := f.raw(name, limit)
	if !utf8.Valid(b) {
		f.fail(name, "not UTF-8")
		return ""
	}
	return string(b)
}

// fixed copies a bytes field of a fixed length into dst.
func (f *fields) fixed(name string, dst []byte) {
	if !f.expect(name, typeBytes) {
		return
	}
	if len(f.bytes) != len(dst) {
		f.fail(name, "%d bytes, want %d", len(f.bytes), len(dst))
		return
	}
	copy(dst, f.bytes)
}

// mergeError copies a decoding error of a nested message to the outer message's decoder.
func (f *fields) mergeError(inner *fields) {
	if f.err == nil {
		f.err = inner.err
	}
}

// checkCount records an error if a decoded list already has the maximum number of elements. The list has `have`
// elements.
func (f *fields) checkCount(name string, have, limit int) bool {
	if have >= limit {
		f.fail(name, "more than %d", limit)
	}
	return f.err == nil
}

// mapEntry reads one key and value of a map field. The map may be nil.
func (f *fields) mapEntry(name string, m *map[string]string, limit int) {
	if !f.checkCount(name, len(*m), limit) {
		return
	}
	if !f.expect(name, typeBytes) {
		return
	}
	var key, value string
	in := fields{message: f.message + "." + name, rest: f.bytes}
	for in.next() {
		switch in.num {
		case 1:
			key = in.string("key", maxKey)
		case 2:
			value = in.string("value", maxValue)
		}
	}
	f.mergeError(&in)
	if f.err != nil {
		return
	}
	if *m == nil {
		*m = make(map[string]string)
	}
	(*m)[key] = value
}

// streamKey reads which numbered sequence a batch belongs to, by stream id and queue. The queue is the lane.
func (f *fields) streamKey(k *StreamKey) {
	if f.num == 1 {
		k.Stream = StreamID(f.fixed64("stream"))
	} else {
		k.Lane = Lane(f.uint("lane", uint64(Backlog)))
	}
}

// stringList reads a string of at most maxBytes bytes, and appends the string to a list. The list has at most `limit`
// elements.
func (f *fields) stringList(name string, list []string, limit, maxBytes int) []string {
	if f.checkCount(name, len(list), limit) {
		list = append(list, f.string(name, maxBytes))
	}
	return list
}
