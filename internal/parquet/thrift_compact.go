package parquet

import "encoding/binary"

// Types of fields in Thrift's compact protocol.
const (
	typeI32    = 5
	typeI64    = 6
	typeBinary = 8
	typeList   = 9
	typeStruct = 12
)

// compactEncoder encodes Parquet metadata as structs in Thrift's compact protocol.
type compactEncoder struct {
	data  []byte
	last  int   // number of the last field in the struct that is open
	outer []int // likewise, of the structs around it
}

// field appends the header of a field, with its type and its number. The number is written as the difference to the
// previous number.
func (c *compactEncoder) field(number int, kind byte) {
	c.data = append(c.data, byte(number-c.last)<<4|kind)
	c.last = number
}

// zigzag appends a signed integer as a varint in zigzag encoding.
func (c *compactEncoder) zigzag(v int64) { c.data = binary.AppendVarint(c.data, v) }

// integer appends a field with a 32-bit integer.
func (c *compactEncoder) integer(number int, v int64) {
	c.field(number, typeI32)
	c.zigzag(v)
}

// long appends a field with a 64-bit integer.
func (c *compactEncoder) long(number int, v int64) {
	c.field(number, typeI64)
	c.zigzag(v)
}

// bytes appends a text with its length, but without a field header.
func (c *compactEncoder) bytes(text string) {
	c.data = append(binary.AppendUvarint(c.data, uint64(len(text))), text...)
}

// text appends a text field.
func (c *compactEncoder) text(number int, text string) {
	c.field(number, typeBinary)
	c.bytes(text)
}

// list appends the header of a list field. The caller then appends the elements.
func (c *compactEncoder) list(number int, kind byte, size int) {
	c.field(number, typeList)
	if size < 15 {
		c.data = append(c.data, byte(size)<<4|kind)
		return
	}
	c.data = binary.AppendUvarint(append(c.data, 15<<4|kind), uint64(size))
}

// structure begins a struct as the value of a field. A call of end closes the struct.
func (c *compactEncoder) structure(number int) {
	c.field(number, typeStruct)
	c.element()
}

// element begins a struct that is an element of a list. A call of end closes the struct.
func (c *compactEncoder) element() { c.outer, c.last = append(c.outer, c.last), 0 }

// end ends the struct that was begun last. Without an open struct it ends the message.
func (c *compactEncoder) end() {
	c.data = append(c.data, 0)
	if n := len(c.outer); n > 0 {
		c.outer, c.last = c.outer[:n-1], c.outer[n-1]
	}
}
