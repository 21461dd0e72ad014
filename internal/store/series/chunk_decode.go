package series

import (
	"encoding/binary"
	"io"
	"math"
)

// appendPoints decodes a chunk, and appends its values between two times to a list. The chunk is of openChunk or
// chunkenc.XORChunk.
func appendPoints(list []point, chunk []byte, from, to int64) ([]point, error) {
	if len(chunk) < chunkHeader {
		return list, io.ErrUnexpectedEOF
	}
	count, r := binary.BigEndian.Uint16(chunk), bitReader{chunk[chunkHeader:], 0}
	v := point{}
	var bits, delta uint64
	trailing, width := uint(0), uint(64) // of the last difference of two values that named them
	for i := range count {
		if i == 0 {
			v.ms = r.readVarint()
			bits = r.readBits(64)
		} else {
			word := r.peek()
			switch {
			case i == 1:
				delta = r.readUvarint()
				word = r.peek()
			case word>>63 == 0:
				r.at++
				word <<= 1
			default:
				delta += r.readDeltaOfDelta(word)
				word = r.peek()
			}
			v.ms += int64(delta)
			switch word >> 62 {
			case 0b00, 0b01: // the same value
				r.at++
			case 0b10:
				r.at += 2
				bits ^= r.readBits(width) << trailing
			default:
				r.at += 13
				width = uint(word<<7>>58-1)%64 + 1 // 0 means 64
				trailing = uint(uint8(64 - uint8(word<<2>>59) - uint8(width)))
				bits ^= r.readBits(width) << trailing
			}
		}
		if r.at > 8*uint(len(r.data)) {
			return list, io.ErrUnexpectedEOF
		}
		if v.ms > to {
			break
		}
		if v.ms >= from {
			v.value = math.Float64frombits(bits)
			list = append(list, v)
		}
	}
	return list, nil
}

// bitReader reads a stream of bits, in each byte the highest bit first. Behind the end it reads zeros.
type bitReader struct {
	data []byte
	at   uint // bits that were read; more than data has: the stream is damaged
}

// peek returns at least 57 of the next bits, the highest first.
func (r *bitReader) peek() uint64 {
	i := r.at / 8
	if i+8 <= uint(len(r.data)) {
		return binary.BigEndian.Uint64(r.data[i:]) << (r.at % 8)
	}
	var last [8]byte
	if i < uint(len(r.data)) {
		copy(last[:], r.data[i:])
	}
	return binary.BigEndian.Uint64(last[:]) << (r.at % 8)
}

// readBits reads n bits, 1 to 64.
func (r *bitReader) readBits(n uint) uint64 {
	if n > 57 {
		high := r.readBits(n - 32)
		return high<<32 | r.readBits(32)
	}
	word := r.peek()
	r.at += n
	return word >> (64 - n)
}

// readDeltaOfDelta reads the change of the time difference between two successive values. Word has its first
// bits, the first one is 1.
func (r *bitReader) readDeltaOfDelta(word uint64) uint64 {
	var size uint
	switch word >> 60 {
	case 0b1000, 0b1001, 0b1010, 0b1011:
		r.at, size = r.at+2, 14
	case 0b1100, 0b1101:
		r.at, size = r.at+3, 17
	case 0b1110:
		r.at, size = r.at+4, 20
	default:
		r.at += 4
		return r.readBits(64)
	}
	d := r.readBits(size)
	if d > 1<<(size-1) {
		d -= 1 << size
	}
	return d
}

// readUvarint reads an unsigned varint.
func (r *bitReader) readUvarint() uint64 {
	var b [binary.MaxVarintLen64]byte
	for i := range b {
		if b[i] = byte(r.readBits(8)); b[i] < 0x80 {
			break
		}
	}
	n, size := binary.Uvarint(b[:])
	if size <= 0 {
		r.at = math.MaxUint / 2 // a number beyond 64 bits
	}
	return n
}

// readVarint reads a signed varint.
func (r *bitReader) readVarint() int64 {
	n := r.readUvarint()
	return int64(n>>1) ^ -int64(n&1)
}
