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

// field appends the Thrift header of a struct field, with type and number. The number is written as the
// difference to the previous number.
func (c *compactEncoder) field(number int, kind byte) {
	c.data = append(c.data, byte(number-c.last)<<4|kind)
	c.last = number
}

// zigzag appends a signed integer to the Thrift data as a varint in zigzag encoding.
func (c *compactEncoder) zigzag(v int64) { c.data = binary.AppendVarint(c.data, v) }

// integer appends a 32-bit integer field to the Thrift data.
func (c *compactEncoder) integer(number int, v int64) {
	c.field(number, typeI32)
	c.zigzag(v)
}

// long appends a 64-bit integer field to the Thrift data.
func (c *compactEncoder) long(number int, v int64) {
	c.field(number, typeI64)
	c.zigzag(v)
}

// bytes appends a text with its length to the Thrift data, without a field header.
func (c *compactEncoder) bytes(text string) {
	c.data = append(binary.AppendUvarint(c.data, uint64(len(text))), text...)
}

// text appends a text field to the Thrift data.
func (c *compactEncoder) text(number int, text string) {
	c.field(number, typeBinary)
	c.bytes(text)
}

// list appends the header of a list field to the Thrift data. The caller then appends the elements.
func (c *compactEncoder) list(number int, kind byte, size int) {
	c.field(number, typeList)
	if size < 15 {
		c.data = append(c.data, byte(size)<<4|kind)
		return
	}
	c.data = binary.AppendUvarint(append(c.data, 15<<4|kind), uint64(size))
}

// structure appends the header of a struct field, and begins the struct until end. A call of end closes the
// struct.
func (c *compactEncoder) structure(number int) {
	c.field(number, typeStruct)
	c.element()
}

// element begins a struct as the next element of a list, until end. A call of end closes the struct.
func (c *compactEncoder) element() { c.outer, c.last = append(c.outer, c.last), 0 }

// end ends the Thrift struct that was begun last and is still open. Without an open struct it ends the message.
func (c *compactEncoder) end() {
	c.data = append(c.data, 0)
	if n := len(c.outer); n > 0 {
		c.outer, c.last = c.outer[:n-1], c.outer[n-1]
	}
}
