package wire

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// coder encodes or decodes the fields of a message with the same code. Each function below encodes or decodes one
// field. One function per message calls a method for each field, in the order of their numbers, with the field's
// number, name and limit: codec.gen.go has these functions. A zero value is left out, as proto3 has it. One call of
// the function decodes all fields that ascend; fields in another order take more calls.
type coder struct {
	encoding bool
	used     bool   // a method decoded the present field
	before   int    // bytes of the message that were left when the last call began
	dst      []byte // the encoded message
	fields          // the message to decode
}

// encoder returns a coder that appends encoded fields to dst.
func encoder(dst []byte) coder { return coder{encoding: true, dst: dst} }

// decoder returns a coder that decodes the given bytes of a message.
func decoder(message string, data []byte) coder {
	return coder{used: true, fields: fields{message: message, rest: data}}
}

// pass reports whether the message has more fields to decode. Then the decoding function must run once more. A field
// that a whole call did not decode is unknown, and skipped.
func (c *coder) pass() bool {
	if (c.used || len(c.rest) == c.before) && !c.next() || c.err != nil || c.num == 0 {
		return false
	}
	c.used, c.before = false, len(c.rest)
	return true
}

// decodes reports whether the next field to decode has the given field number. Then the caller decodes the
// field. It first advances, if the present field is decoded.
func (c *coder) decodes(num uint32) bool {
	if c.encoding {
		return false
	}
	if c.used {
		if c.used = false; !c.next() {
			c.num = 0 // the end
		}
	}
	c.used = c.num == uint64(num)
	return c.used
}

// decoded reports whether the coder has just decoded the field with a given number.
func (c *coder) decoded(num uint32) bool { return c.used && c.num == uint64(num) }

// encodeMessage appends the encoded fields of a message.
func encodeMessage[T any](dst []byte, x *T, code func(*coder, *T)) []byte {
	c := encoder(dst)
	code(&c, x)
	return c.dst
}

// decodeMessage decodes the fields of a message into x.
func decodeMessage[T any](message string, data []byte, x *T, code func(*coder, *T)) error {
	c := decoder(message, data)
	for c.pass() {
		code(&c, x)
	}
	return c.err
}

// appendMessage appends x as a nested message field.
func appendMessage[T any](dst []byte, field uint32, x *T, code func(*coder, *T)) []byte {
	dst, start := openMessage(dst, field)
	return closeMessage(encodeMessage(dst, x, code), start)
}

// nested decodes a message inside a field of an outer message.
func nested[T any](f *fields, name, message string, code func(*coder, *T)) (v T) {
	if f.expect(name, typeBytes) {
		if err := decodeMessage(message, f.bytes, &v, code); f.err == nil {
			f.err = err
		}
	}
	return v
}

// appendNested encodes x as a message inside the message that the coder encodes.
func appendNested[T any](c *coder, num uint32, x *T, code func(*coder, *T)) {
	dst, start := openMessage(c.dst, num)
	c.dst = dst
	code(c, x)
	c.dst = closeMessage(c.dst, start)
}

// message encodes or decodes a nested message field.
func message[T comparable](c *coder, num uint32, name, message string, x *T, code func(*coder, *T)) {
	var zero T
	if c.decodes(num) {
		*x = nested(&c.fields, name, message, code)
	} else if c.encoding && *x != zero {
		appendNested(c, num, x, code)
	}
}

// optionalMessage encodes or decodes a nested message that may be absent (nil). nil stands for an absent field.
func optionalMessage[T any](c *coder, num uint32, name, message string, x **T, code func(*coder, *T)) {
	if c.decodes(num) {
		*x = new(nested(&c.fields, name, message, code))
	} else if c.encoding && *x != nil {
		appendNested(c, num, *x, code)
	}
}

// messages encodes or decodes a repeated message field of at most `limit` elements.
func messages[T any](c *coder, num uint32, name, message string, list *[]T, limit int, code func(*coder, *T)) {
	if c.encoding {
		for i := range *list {
			appendNested(c, num, &(*list)[i], code)
		}
		return
	}
	for c.decodes(num) && c.checkCount(name, len(*list), limit) {
		*list = append(*list, nested(&c.fields, name, message, code))
	}
}

// number encodes or decodes a varint field with a value of at most `limit`.
func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int | ~int8 | ~int64](c *coder, num uint32, name string, x *T, limit uint64) {
	if c.encoding {
		c.dst = appendUint(c.dst, num, uint64(*x))
	} else if c.decodes(num) {
		*x = T(c.uint(name, limit))
	}
}

// millis encodes or decodes a duration as a whole number of milliseconds.
func millis[T ~int64](c *coder, num uint32, name string, x *T, limit uint64) {
	ms := uint64(time.Duration(*x).Milliseconds())
	number(c, num, name, &ms, limit)
	if c.decoded(num) {
		*x = T(ms) * T(time.Millisecond)
	}
}

// time encodes or decodes a time in Unix milliseconds. The zero time stands for an absent field.
func (c *coder) time(num uint32, name string, x *time.Time, limit uint64) {
	if c.encoding && !x.IsZero() {
		c.dst = appendUint(c.dst, num, uint64(x.UnixMilli()))
	} else if c.decodes(num) {
		*x = time.Time{}
		if ms := c.uint(name, limit); ms != 0 {
			*x = time.UnixMilli(int64(ms)).UTC()
		}
	}
}

// numbers encodes or decodes a list of numbers, packed into one field. It also decodes numbers that are not packed.
func numbers[T ~uint32](c *coder, num uint32, name string, list *[]T, limit int) {
	if c.encoding && len(*list) > 0 {
		dst, start := openMessage(c.dst, num)
		for _, n := range *list {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		c.dst = closeMessage(dst, start)
	}
	for c.decodes(num) {
		if c.typ == typeVarint {
			if c.checkCount(name, len(*list), limit) {
				*list = append(*list, T(c.uint32(name)))
			}
			continue
		}
		data := c.raw(name, MaxFrame)
		for i := 0; i < len(data) && c.checkCount(name, len(*list), limit); {
			var v uint64
			if v, i = uvarint(data, i); i < 0 || v > 1<<32-1 {
				c.fail(name, "not a number of 32 bits")
				break
			}
			*list = append(*list, T(v))
		}
	}
}

// fixed64 encodes or decodes a number as a field of always eight bytes.
func fixed64[T ~uint64](c *coder, num uint32, name string, x *T) {
	if c.encoding {
		c.dst = appendFixed64(c.dst, num, uint64(*x))
	} else if c.decodes(num) {
		*x = T(c.fields.fixed64(name))
	}
}

// double encodes or decodes a finite floating-point field.
func (c *coder) double(num uint32, name string, x *float64) {
	if c.encoding && *x != 0 {
		c.appendDouble(num, *x)
	} else if c.decodes(num) {
		*x = c.readDouble(name)
	}
}

// optionalDouble encodes or decodes a floating-point field that may be absent (nil). nil stands for an absent field,
// and zero is encoded.
func (c *coder) optionalDouble(num uint32, name string, x **float64) {
	if c.encoding && *x != nil {
		c.appendDouble(num, **x)
	} else if c.decodes(num) {
		*x = new(c.readDouble(name))
	}
}

// appendDouble appends a floating-point field, even for zero.
func (c *coder) appendDouble(num uint32, v float64) {
	c.dst = binary.LittleEndian.AppendUint64(appendTag(c.dst, num, typeFixed64), math.Float64bits(v))
}

// readDouble decodes the current field as a finite floating-point number.
func (c *coder) readDouble(name string) float64 {
	v := math.Float64frombits(c.fields.fixed64(name))
	if math.IsNaN(v) || math.IsInf(v, 0) {
		c.fail(name, "not a finite number")
	}
	return v
}

// flag encodes or decodes a boolean field.
func (c *coder) flag(num uint32, name string, x *bool) {
	if c.encoding {
		c.dst = appendBool(c.dst, num, *x)
	} else if c.decodes(num) {
		*x = c.bool(name)
	}
}

// optionalFlag encodes or decodes a boolean field that may be absent (nil). nil stands for an absent field, and false
// is encoded.
func (c *coder) optionalFlag(num uint32, name string, x **bool) {
	if c.decodes(num) {
		*x = new(c.bool(name))
	} else if c.encoding && *x != nil {
		if **x {
			c.dst = appendBool(c.dst, num, true)
		} else {
			c.dst = append(appendTag(c.dst, num, typeVarint), 0)
		}
	}
}

// text encodes or decodes a string field of at most `limit` bytes.
func (c *coder) text(num uint32, name string, x *string, limit int) {
	if c.encoding {
		c.dst = appendString(c.dst, num, *x)
	} else if c.decodes(num) {
		*x = c.string(name, limit)
	}
}

// optionalText encodes or decodes a string field that may be absent (nil). nil stands for an absent field, and an
// empty text is encoded.
func (c *coder) optionalText(num uint32, name string, x **string, limit int) {
	if c.decodes(num) {
		*x = new(c.string(name, limit))
	} else if c.encoding && *x != nil {
		c.dst = appendStringItem(c.dst, num, **x)
	}
}

// textList encodes or decodes a list of strings (a repeated field). It has at most `limit` strings of at most maxBytes
// bytes.
func (c *coder) textList(num uint32, name string, list *[]string, limit, maxBytes int) {
	if c.encoding {
		c.dst = appendStrings(c.dst, num, *list)
		return
	}
	for c.decodes(num) {
		*list = c.stringList(name, *list, limit, maxBytes)
	}
}

// texts encodes or decodes a map of strings with at most `limit` entries. It encodes them in the order of their keys,
// so that equal maps have equal bytes.
func (c *coder) texts(num uint32, name string, m *map[string]string, limit int) {
	for c.decodes(num) {
		c.mapEntry(name, m, limit)
	}
	if !c.encoding || len(*m) == 0 {
		return
	}
	dst, start := c.dst, 0
	for _, k := range slices.Sorted(maps.Keys(*m)) {
		dst, start = openMessage(dst, num)
		dst = appendStringItem(dst, 1, k)
		dst = appendStringItem(dst, 2, (*m)[k])
		dst = closeMessage(dst, start)
	}
	c.dst = dst
}

// bytes encodes or decodes a bytes field of at most `limit` bytes. Decoded bytes are a part of the input.
func (c *coder) bytes(num uint32, name string, x *[]byte, limit int) {
	if c.encoding {
		c.dst = appendBytes(c.dst, num, *x)
	} else if c.decodes(num) {
		*x = c.raw(name, limit)
	}
}

// fixed encodes or decodes a bytes field of fixed length. Zeroes stand for an absent field.
func (c *coder) fixed(num uint32, name string, x []byte) {
	if c.encoding {
		c.dst = appendFixed(c.dst, num, x)
	} else if c.decodes(num) {
		c.fields.fixed(name, x)
	}
}

// hex encodes or decodes a text of hexadecimal digits as a bytes field of fixed length.
func (c *coder) hex(num uint32, name string, x *string, length int) {
	if c.decodes(num) {
		b := make([]byte, length)
		c.fields.fixed(name, b)
		*x = hex.EncodeToString(b)
	} else if c.encoding {
		b, err := hex.DecodeString(*x)
		if err != nil {
			panic("BUG: encode hexadecimal digits: " + err.Error())
		}
		c.dst = appendBytes(c.dst, num, b)
	}
}

// statusName encodes or decodes the name of a check status, such as ok, as a number. The empty name stands for OK.
func (c *coder) statusName(num uint32, name string, x *string) {
	status, _ := model.ParseStatus(*x)
	number(c, num, name, &status, uint64(model.Unknown))
	if c.decoded(num) {
		*x = ""
		if status != model.OK {
			*x = strings.ToLower(status.String())
		}
	}
}

// severityList encodes or decodes a list of severities as a bytes field with one byte for each.
func (c *coder) severityList(num uint32, name string, list []model.Severity) {
	if c.encoding {
		b := make([]byte, len(list))
		for i, severity := range list {
			b[i] = byte(severity)
		}
		c.dst = appendBytesItem(c.dst, num, b)
	} else if c.decodes(num) {
		b := make([]byte, len(list))
		c.fields.fixed(name, b)
		for i, v := range b {
			if v > byte(model.Disaster) {
				c.fail(name, "%d, at most %d", v, model.Disaster)
			}
			list[i] = model.Severity(v)
		}
	}
}
