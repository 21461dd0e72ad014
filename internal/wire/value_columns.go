package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/muster-fleet/muster/internal/item"
)

// BlockValue is the value of one item at one time, in a value block. docs/protocol/columns.md has the format.
type BlockValue struct {
	Position    uint32 // index of the item in its TemplateDefinition
	Row         uint32 // index of the time
	Value       item.Value
	Unsupported bool // the item has no value at this time; the text of Value is the reason
}

const columnsVersion = 1

// Modes of a column, which say how its values are encoded.
const (
	modeUnsigned    = iota // zigzag varints of the differences, modulo 2^64
	modeDecimal            // the exponent k, then zigzag varints of the differences of value × 10^k
	modeRaw                // float64 in 8 bytes, little-endian
	modeText               // length and bytes
	modeUnsupported        // likewise: the reason
	modes

	rowSetFlag = 0x80 // a bit per time follows the mode: the column has no value at the others
)

// maxExponent is the greatest number of decimal places in a decimal column. Up to 10^22 a power of ten is exact as
// float64, so that one division gives the nearest float64 of a decimal.
const maxExponent = 18

// powersOfTen has the powers of ten of decimal columns.
var powersOfTen = [maxExponent + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// AppendColumns appends the values of a value block as encoded columns, one per item. times are in nanoseconds after
// the signal's time. The values are ordered by position; values of one position and kind stand together, by ascending
// row.
func AppendColumns(dst []byte, times []int64, values []BlockValue) []byte {
	dst = binary.AppendUvarint(append(dst, columnsVersion), uint64(len(times)))
	var last int64
	for _, at := range times {
		dst = binary.AppendVarint(dst, at-last)
		last = at
	}
	position := uint32(0)
	for len(values) > 0 {
		first, n := &values[0], 1
		for n < len(values) && values[n].Position == first.Position && values[n].Row > values[n-1].Row && modeOf(&values[n]) == modeOf(first) {
			n++
		}
		dst = binary.AppendUvarint(dst, uint64(first.Position-position))
		position = first.Position
		dst = appendColumn(dst, len(times), values[:n])
		values = values[n:]
	}
	return dst
}

// modeOf returns the encoding mode of a value for its column, such as unsigned or text. A float gets the raw mode.
func modeOf(v *BlockValue) byte {
	switch {
	case v.Unsupported:
		return modeUnsupported
	case v.Value.Kind() == item.UnsignedValue:
		return modeUnsigned
	case v.Value.Kind() == item.FloatValue:
		return modeRaw
	}
	return modeText
}

// appendColumn appends the column of one item, which has an encoding mode, a set of rows and values.
func appendColumn(dst []byte, times int, values []BlockValue) []byte {
	mode, exponent := modeOf(&values[0]), 0
	if mode == modeRaw {
		if k, ok := decimalExponent(values); ok {
			mode, exponent = modeDecimal, k
		}
	}
	if len(values) == times {
		dst = append(dst, mode)
	} else {
		dst = append(dst, mode|rowSetFlag)
		set := len(dst)
		dst = append(dst, make([]byte, (times+7)/8)...)
		for i := range values {
			dst[set+int(values[i].Row/8)] |= 1 << (values[i].Row % 8)
		}
	}
	if mode == modeDecimal {
		dst = append(dst, byte(exponent))
	}
	var last uint64
	for i := range values {
		v := &values[i].Value
		switch mode {
		case modeUnsigned:
			dst = binary.AppendVarint(dst, int64(v.Unsigned()-last))
			last = v.Unsigned()
		case modeDecimal:
			m := uint64(int64(math.Round(v.Float() * powersOfTen[exponent])))
			dst = binary.AppendVarint(dst, int64(m-last))
			last = m
		case modeRaw:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float()))
		default:
			text := v.String()
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
	}
	return dst
}

// decimalExponent returns the number of decimal places that suffices for all values of a column. All values are
// integers × 10^-k. ok is false if no k exists or raw floats are shorter.
func decimalExponent(values []BlockValue) (k int, ok bool) {
	for k <= maxExponent && !areDecimals(values, k) {
		k++
	}
	if k > maxExponent {
		return 0, false
	}
	size, last := 1, int64(0)
	for i := range values {
		m := int64(math.Round(values[i].Value.Float() * powersOfTen[k]))
		size += varintBytes(uint64(m-last)<<1 ^ uint64((m-last)>>63))
		last = m
	}
	return k, size <= 8*len(values)
}

// areDecimals reports whether all values are exact decimal numbers with at most k decimal places. It is an integer
// below 2^53 divided by 10^k.
func areDecimals(values []BlockValue, k int) bool {
	for i := range values {
		f := values[i].Value.Float()
		m := math.Round(f * powersOfTen[k])
		if !(math.Abs(m) < 1<<53) || math.Float64bits(float64(int64(m))/powersOfTen[k]) != math.Float64bits(f) {
			return false
		}
	}
	return true
}

// ColumnReader decodes the columns of a ValueBlock, column by column. It allocates nothing per value; the caller uses one
// reader for many blocks.
type ColumnReader struct {
	data      []byte
	at        int
	times     []int64
	remaining uint32 // values of the block still to come
	err       error

	// Of the present column.
	position uint32
	mode     byte
	exponent byte
	rows     []byte // row set; nil: every row
	next     uint32 // row
	last     uint64 // value before, for differences
}

// Reset makes the reader start on another value block, and decodes the times of its rows.
func (r *ColumnReader) Reset(b *ValueBlock) error {
	*r = ColumnReader{data: b.Columns, times: r.times[:0], remaining: b.Rows}
	if len(r.data) == 0 || r.data[0] != columnsVersion {
		return r.fail("version")
	}
	r.at = 1
	times := r.uvarint()
	if r.err != nil || times == 0 || times > uint64(b.Rows) {
		return r.fail("times")
	}
	var last int64
	for range times {
		last += r.varint()
		r.times = append(r.times, last)
	}
	r.next = uint32(times)
	return r.err
}

// Times returns the measuring times of the block's rows, in nanoseconds after the signal's time.
func (r *ColumnReader) Times() []int64 { return r.times }

// Err returns the error that ended Next early, or nil after all values were decoded.
func (r *ColumnReader) Err() error { return r.err }

// fail records an error, which ends the reading of the block.
func (r *ColumnReader) fail(part string) error {
	if r.err == nil {
		r.err = fmt.Errorf("decode ValueBlock.columns: %w: %s at byte %d", ErrMalformed, part, r.at)
	}
	return r.err
}

// uvarint decodes an unsigned varint.
func (r *ColumnReader) uvarint() uint64 {
	v, n := uvarint(r.data, r.at)
	if n < 0 {
		_ = r.fail("number")
		return 0
	}
	r.at = n
	return v
}

// varint decodes a zigzag varint.
func (r *ColumnReader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// readBytes returns the next n bytes.
func (r *ColumnReader) readBytes(n uint64) []byte {
	if n > uint64(len(r.data)-r.at) {
		_ = r.fail("length")
		return nil
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

// Next decodes the next value of an item from the block. It returns false at the end of the block, or at a malformed
// value. Then Err is not nil. A text in v is a part of the block.
func (r *ColumnReader) Next(v *BlockValue) bool {
	if r.err != nil {
		return false
	}
	for !r.nextRow() {
		if r.at == len(r.data) {
			if r.remaining > 0 {
				_ = r.fail("fewer values than rows")
			}
			return false
		}
		if !r.nextColumn() {
			return false
		}
	}
	if r.remaining == 0 {
		_ = r.fail("more values than rows")
		return false
	}
	r.remaining--
	v.Position, v.Row, v.Unsupported = r.position, r.next, r.mode == modeUnsupported
	r.next++
	switch r.mode {
	case modeUnsigned:
		r.last += uint64(r.varint())
		v.Value = item.FromUnsigned(r.last)
	case modeDecimal:
		r.last += uint64(r.varint())
		v.Value = item.FromFloat(float64(int64(r.last)) / powersOfTen[r.exponent])
	case modeRaw:
		if b := r.readBytes(8); b != nil {
			v.Value = item.FromFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	default:
		b := r.readBytes(r.uvarint())
		v.Value = item.FromText(unsafe.String(unsafe.SliceData(b), len(b)))
	}
	return r.err == nil
}

// nextRow moves to the next row (time) at which the item of the column has a value. It returns false at the end of the
// column.
func (r *ColumnReader) nextRow() bool {
	for int(r.next) < len(r.times) {
		if r.rows == nil || r.rows[r.next/8]&(1<<(r.next%8)) != 0 {
			return true
		}
		r.next++
	}
	return false
}

// nextColumn decodes the start of the next column, which has the values of one item. The head has item, encoding mode
// and set of rows.
func (r *ColumnReader) nextColumn() bool {
	position := uint64(r.position) + r.uvarint()
	mode := r.readBytes(1)
	if r.err != nil || position > math.MaxUint32 || mode[0]&^rowSetFlag >= modes {
		return r.fail("column") == nil
	}
	r.position, r.mode, r.rows, r.next, r.last = uint32(position), mode[0]&^rowSetFlag, nil, 0, 0
	if mode[0]&rowSetFlag != 0 {
		r.rows = r.readBytes(uint64(len(r.times)+7) / 8)
		set := 0
		for _, b := range r.rows {
			set += bits.OnesCount8(b)
		}
		if spare := len(r.rows)*8 - len(r.times); r.err != nil || set == 0 || r.rows[len(r.rows)-1]>>(8-spare) != 0 {
			return r.fail("row set") == nil
		}
	}
	if r.mode == modeDecimal {
		k := r.readBytes(1)
		if r.err != nil || k[0] > maxExponent {
			return r.fail("exponent") == nil
		}
		r.exponent = k[0]
	}
	return true
}
