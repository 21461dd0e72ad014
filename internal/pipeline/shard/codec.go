package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrSnapshot reports bytes that are no snapshot of this program.
var ErrSnapshot = errors.New("snapshot is malformed")

// Decoder reads a section of a snapshot; after the first error it reads zeros. Slices
// that it returns alias the section.
type Decoder struct {
	rest []byte
	err  error
}

// NewDecoder reads a section.
func NewDecoder(section []byte) *Decoder { return &Decoder{rest: section} }

// Fail notes the first malformed element.
func (d *Decoder) Fail(element string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrSnapshot, element)
	}
	d.rest = nil
}

// Err is the first error.
func (d *Decoder) Err() error { return d.err }

// Uint reads an unsigned varint.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.Fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// Uint32 reads an unsigned varint of at most 32 bits.
func (d *Decoder) Uint32() uint32 {
	v := d.Uint()
	if v > 1<<32-1 {
		d.Fail("number out of range")
		return 0
	}
	return uint32(v)
}

// Int reads a zigzag varint.
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.Fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if b := d.next(1); b != nil {
		return b[0]
	}
	return 0
}

// Fixed64 reads eight bytes, little-endian.
func (d *Decoder) Fixed64() uint64 {
	if b := d.next(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Fixed32 reads four bytes, little-endian.
func (d *Decoder) Fixed32() uint32 {
	if b := d.next(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Bytes reads a length and as many bytes.
func (d *Decoder) Bytes() []byte { return d.next(d.Uint()) }

// Count reads the number of elements that follow, each of at least one byte.
func (d *Decoder) Count() int {
	n := d.Uint()
	if n > uint64(len(d.rest)) {
		d.Fail("more elements than bytes")
		return 0
	}
	return int(n)
}

func (d *Decoder) next(size uint64) []byte {
	if size > uint64(len(d.rest)) {
		d.Fail("cut short")
		return nil
	}
	v := d.rest[:size:size]
	d.rest = d.rest[size:]
	return v
}

// AppendBool writes a bool as one byte.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendText writes a text as Decoder.Bytes reads it.
func AppendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
