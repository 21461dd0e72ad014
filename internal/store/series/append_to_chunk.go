package series

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// openChunk is the chunk to which new values of a series are appended, encoded like Prometheus' XORChunk. It
// keeps the state of the encoder, which an XORChunk computes by decoding, and the last bits: so most appends do
// not touch the data, which is a cache miss for one of a million series, and a chunk from a snapshot goes on at
// its last bit.
type openChunk struct {
	last              int64  // time of the last value, ms
	value             uint64 // bits of the last value
	tail              uint64 // the last bits of the stream, the highest first; the others are zero
	delta             uint32 // time between the last two values, ms
	count             uint8  // values
	used              uint8  // bits of tail: at most 63
	leading, trailing uint8  // zero bits around the last difference of two values; noWindow: none was written
	data              []byte // header of 2 bytes, which bytes fills in, and the stream of bits before tail; nil: the chunk has no values
}

const (
	chunkHeader   = 2
	firstCapacity = 64   // bytes of a new chunk: 120 values of a constant take 48
	noWindow      = 0xff // of openChunk.leading
	maxDelta      = math.MaxUint32
)

// bytes returns a copy of the chunk in the encoding of Prometheus' XORChunk.
func (c *openChunk) bytes() []byte { return c.appendTo(make([]byte, 0, c.size()+8)) }

// size returns the length of the chunk in bytes.
func (c *openChunk) size() int { return len(c.data) + (int(c.used)+7)/8 }

// appendTo appends the chunk to a byte slice, in the encoding of Prometheus' XORChunk.
func (c *openChunk) appendTo(b []byte) []byte {
	from, end := len(b), len(b)+c.size()
	b = binary.BigEndian.AppendUint64(append(b, c.data...), c.tail)[:end]
	binary.BigEndian.PutUint16(b[from:], uint16(c.count))
	return b
}

// append adds a value to the chunk, whose time is at most maxDelta after the last value's time.
func (c *openChunk) append(ms int64, value float64) {
	v, delta := math.Float64bits(value), ms-c.last
	switch c.count {
	case 0:
		c.data = binary.AppendVarint(make([]byte, chunkHeader, firstCapacity), ms)
		c.data = binary.BigEndian.AppendUint64(c.data, v)
		delta, c.leading = 0, noWindow
	case 1:
		c.data = binary.AppendUvarint(c.data, uint64(delta))
		c.appendValue(v)
	default:
		switch d := delta - int64(c.delta); {
		case d == 0:
			c.appendBits(0, 1)
		case fits(d, 14):
			c.appendBits(0b10<<14|uint64(d)&(1<<14-1), 16)
		case fits(d, 17):
			c.appendBits(0b110<<17|uint64(d)&(1<<17-1), 20)
		case fits(d, 20):
			c.appendBits(0b1110<<20|uint64(d)&(1<<20-1), 24)
		default:
			c.appendBits(0b1111, 4)
			c.appendBits(uint64(d), 64)
		}
		c.appendValue(v)
	}
	c.last, c.value, c.delta, c.count = ms, v, uint32(delta), c.count+1
}

// fits reports whether n bits can store a signed time difference.
func fits(d int64, n uint) bool { return -(1<<(n-1)-1) <= d && d <= 1<<(n-1) }

// appendValue encodes a value as its XOR with the last value, and appends the bits.
func (c *openChunk) appendValue(v uint64) {
	diff := v ^ c.value
	if diff == 0 {
		c.appendBits(0, 1)
		return
	}
	leading, trailing := uint8(min(bits.LeadingZeros64(diff), 31)), uint8(bits.TrailingZeros64(diff))
	if c.leading != noWindow && leading >= c.leading && trailing >= c.trailing {
		c.appendBits(0b10, 2)
		c.appendBits(diff>>c.trailing, 64-uint(c.leading)-uint(c.trailing))
		return
	}
	c.leading, c.trailing = leading, trailing
	width := 64 - uint(leading) - uint(trailing)
	c.appendBits(0b11<<11|uint64(leading)<<6|uint64(width)&63, 13)
	c.appendBits(diff>>trailing, width)
}

// appendBits appends the n low bits of u, where n is from 1 to 64.
func (c *openChunk) appendBits(u uint64, n uint) {
	u <<= 64 - n
	used := uint(c.used)
	c.tail |= u >> used
	if c.used = uint8(used + n); used+n < 64 {
		return
	}
	if need := len(c.data) + 8; need > cap(c.data) {
		c.data = append(make([]byte, 0, need+need/4), c.data...)
	}
	c.data = binary.BigEndian.AppendUint64(c.data, c.tail)
	c.tail, c.used = u<<(64-used), uint8(used+n-64)
}

// setData restores the chunk's encoded bits from a snapshot. The last byte may have free bits.
func (c *openChunk) setData(data []byte, free uint8) {
	c.data = append(make([]byte, 0, max(firstCapacity, len(data)+8)), data...)
	if last := len(data) - 1; free > 0 {
		c.data, c.tail, c.used = c.data[:last], uint64(data[last])<<56, 8-free
	}
}

// isValid reports whether the chunk's encoder state from a snapshot is valid.
func (c *openChunk) isValid() bool {
	return len(c.data) > chunkHeader && c.count > 0 && c.count <= maxSamples && c.used < 64 && (c.leading == noWindow || c.leading < 32 && c.trailing < 64-c.leading)
}
