package sensuwire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/model"
)

// maxItems bounds the items that are read of a list or map; further items are dropped.
const maxItems = 1024

// fieldValue is the still encoded value of one field of a Sensu message, in protobuf or JSON.
type fieldValue struct {
	codec  Codec
	raw    []byte // JSON text; protobuf: content of a length-delimited field
	number uint64 // protobuf: other fields
}

// isNull reports whether the encoded field value is the JSON value null.
func (v fieldValue) isNull() bool { return v.codec == JSON && string(v.raw) == "null" }

// text decodes the field's value as a string.
func (v fieldValue) text() string {
	if v.codec == Protobuf {
		return string(v.raw)
	}
	s, _ := appendString(nil, v.raw)
	return string(s)
}

// int decodes the field's value as an integer, and truncates a fraction.
func (v fieldValue) int() int64 {
	if v.codec == Protobuf {
		return int64(v.number)
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil { // a fraction, which no agent sends, is cut off
		f, _ := strconv.ParseFloat(string(v.raw), 64)
		return int64(f)
	}
	return n
}

// float decodes the field's value as a floating-point number. JSON that is no number gives NaN.
func (v fieldValue) float() float64 {
	if v.codec == Protobuf {
		return math.Float64frombits(v.number)
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// bool decodes the field's value as a boolean.
func (v fieldValue) bool() bool { return v.number != 0 || string(v.raw) == "true" }

// forEach calls f with each element of a field's encoded list value. In protobuf each item is a field of its
// own.
func (v fieldValue) forEach(f func(fieldValue) bool) bool {
	if v.codec == Protobuf {
		return f(v)
	}
	return forEachElement(v.raw, func(raw []byte) bool { return f(fieldValue{codec: JSON, raw: raw}) })
}

// field describes how to decode one field of a message into a struct T. In protobuf a field has a number and wire
// type, in JSON a name. read returns false for a value that cannot be decoded. Tables ascend by tag.
type field[T any] struct {
	tag  uint64
	name string
	read func(*T, fieldValue) bool
}

// Wire types of protobuf, in the low bits of a tag.
const (
	varint  = uint64(protowire.VarintType)
	fixed64 = uint64(protowire.Fixed64Type)
	lengths = uint64(protowire.BytesType)
)

// tagOf returns the protobuf tag for a field number and wire type.
func tagOf(number int, wireType uint64) uint64 { return uint64(number)<<3 | wireType }

// readFields decodes a message field by field, by a table of its fields. If the message is malformed, it returns
// false. JSON's null is an empty message.
func readFields[T any](v fieldValue, fields []field[T], into *T) bool {
	if v.codec == JSON {
		at := 0 // members often have the order of the table
		return v.isNull() || forEachMember(v.raw, func(key, raw []byte) bool {
			for range fields {
				f := &fields[at]
				if at++; at == len(fields) {
					at = 0
				}
				if len(f.name) == len(key) && f.name == string(key) {
					return f.read(into, fieldValue{codec: JSON, raw: raw})
				}
			}
			return true
		})
	}
	last, at := uint64(0), 0 // senders write fields in ascending order, as the table has them
	for rest := v.raw; len(rest) > 0; {
		tag, number, raw, after, ok := nextField(rest)
		if !ok {
			return false
		}
		rest = after
		if tag < last {
			at = 0
		}
		for last = tag; at < len(fields) && fields[at].tag < tag; {
			at++
		}
		if at < len(fields) && fields[at].tag == tag && !fields[at].read(into, fieldValue{raw: raw, number: number}) {
			return false
		}
	}
	return true
}

// nextField splits the first field off a protobuf message. The result ok is false if the message is malformed. raw is
// the content of a length-delimited field, number the value of others. All results fit into registers.
func nextField(message []byte) (tag, number uint64, raw, rest []byte, ok bool) {
	n := 1
	if tag = uint64(message[0]); tag >= 0x80 {
		tag, n = protowire.ConsumeVarint(message)
	}
	if n < 0 || tag>>3 == 0 || tag>>3 > uint64(protowire.MaxValidNumber) {
		return 0, 0, nil, nil, false
	}
	message = message[n:]
	switch tag & 7 {
	case varint:
		number, n = protowire.ConsumeVarint(message)
	case lengths:
		if len(message) > 0 && message[0] < 0x80 && int(message[0]) < len(message) { // as nearly all
			n = 1 + int(message[0])
			raw = message[1:n]
		} else {
			raw, n = protowire.ConsumeBytes(message)
		}
	case fixed64:
		number, n = protowire.ConsumeFixed64(message)
	default:
		n = protowire.ConsumeFieldValue(protowire.Number(tag>>3), protowire.Type(tag&7), message)
	}
	if n < 0 {
		return 0, 0, nil, nil, false
	}
	return tag, number, raw, message[n:], true
}

// decode decodes a message body with the given function, and returns an error with the message's name. Errors
// contain the message's name.
func (c Codec) decode(name string, body []byte, read func(fieldValue) bool) error {
	if read(fieldValue{codec: c, raw: body}) {
		return nil
	}
	encoding := [...]string{"protobuf", "JSON"}[c]
	return model.Errorf(model.Invalid, "message %s is not valid %s", name, encoding)
}

// textField describes how to decode a string field.
func textField[T any](number int, name string, at func(*T) *string) field[T] {
	return field[T]{tagOf(number, lengths), name, func(m *T, v fieldValue) bool { *at(m) = v.text(); return true }}
}

// textsField describes how to decode a field with a list of strings.
func textsField[T any](number int, name string, at func(*T) *[]string) field[T] {
	return field[T]{tagOf(number, lengths), name, func(m *T, v fieldValue) bool {
		return v.forEach(func(v fieldValue) bool {
			if list := at(m); len(*list) < maxItems {
				*list = append(*list, v.text())
			}
			return true
		})
	}}
}

// intField describes how to decode an integer field.
func intField[T any, N int32 | int64 | uint32](number int, name string, at func(*T) *N) field[T] {
	return field[T]{tagOf(number, varint), name, func(m *T, v fieldValue) bool { *at(m) = N(v.int()); return true }}
}

// floatField describes how to decode a floating-point field.
func floatField[T any](number int, name string, at func(*T) *float64) field[T] {
	return field[T]{tagOf(number, fixed64), name, func(m *T, v fieldValue) bool { *at(m) = v.float(); return true }}
}

// messageField describes how to decode a field with a nested message. The function set receives the decoded message.
func messageField[T, M any](number int, name string, fields []field[M], set func(*T, *M)) field[T] {
	return field[T]{tagOf(number, lengths), name, func(m *T, v fieldValue) bool {
		var x M
		ok := readFields(v, fields, &x)
		set(m, &x)
		return ok
	}}
}

// messagesField describes how to decode a field with a list of nested messages. The function add receives each decoded
// message.
func messagesField[T, M any](number int, name string, fields []field[M], add func(*T, *M)) field[T] {
	one := messageField(number, name, fields, add)
	return field[T]{one.tag, name, func(m *T, v fieldValue) bool {
		return v.forEach(func(v fieldValue) bool { return one.read(m, v) })
	}}
}

// keyValue is a name with a text value, such as a tag of a metric point.
type keyValue struct{ key, text string }

// keyValueFields lists the fields of a map entry, which protobuf encodes as a message.
var keyValueFields = []field[keyValue]{
	textField(1, "name", func(p *keyValue) *string { return &p.key }),
	textField(2, "value", func(p *keyValue) *string { return &p.text }),
}

// addKeyValue adds an entry to a map, unless the map already has maxItems entries.
func addKeyValue(m *map[string]string, p *keyValue) {
	if *m == nil {
		*m = map[string]string{}
	}
	if len(*m) < maxItems {
		(*m)[p.key] = p.text
	}
}

// pairsField describes how to decode a field with a map of strings.
func pairsField[T any](number int, name string, at func(*T) *map[string]string) field[T] {
	return field[T]{tagOf(number, lengths), name, func(m *T, v fieldValue) bool {
		into := at(m)
		if v.codec == Protobuf {
			var p keyValue
			ok := readFields(v, keyValueFields, &p)
			addKeyValue(into, &p)
			return ok
		}
		if v.isNull() {
			return true
		}
		*into = map[string]string{}
		return forEachMember(v.raw, func(key, raw []byte) bool {
			quoted := fieldValue{codec: JSON, raw: []byte(`"` + string(key) + `"`)}
			addKeyValue(into, &keyValue{quoted.text(), fieldValue{codec: JSON, raw: raw}.text()})
			return true
		})
	}}
}

// forEachMember calls f with the unquoted key and the raw value of each member of a JSON object. Values are not
// checked here: the reader of a value reports its errors.
func forEachMember(object []byte, f func(key, value []byte) bool) bool {
	i := skipSpace(object, 0)
	if i == len(object) || object[i] != '{' {
		return false
	}
	if i = skipSpace(object, i+1); i < len(object) && object[i] == '}' {
		return true
	}
	for {
		key, n := scanString(object, i)
		if n < 0 {
			return false
		}
		if i = skipSpace(object, n); i == len(object) || object[i] != ':' {
			return false
		}
		start := skipSpace(object, i+1)
		end := scanValue(object, start)
		if end < 0 || !f(key[1:len(key)-1], object[start:end]) {
			return false
		}
		i = skipSpace(object, end)
		switch {
		case i == len(object):
			return false
		case object[i] == '}':
			return true
		case object[i] != ',':
			return false
		}
		i = skipSpace(object, i+1)
	}
}

// forEachElement calls f with each element of a JSON array.
func forEachElement(array []byte, f func(value []byte) bool) bool {
	if len(array) == 0 || array[0] != '[' {
		return string(array) == "null"
	}
	i := skipSpace(array, 1)
	if i < len(array) && array[i] == ']' {
		return true
	}
	for {
		end := scanValue(array, i)
		if end < 0 || !f(array[i:end]) {
			return false
		}
		i = skipSpace(array, end)
		if i == len(array) || array[i] != ',' {
			return i < len(array) && array[i] == ']'
		}
		i = skipSpace(array, i+1)
	}
}

// skipSpace returns the index of the first byte after white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// scanString returns the quoted JSON string at index i and the index after the string. If no string begins there, the
// index is -1.
func scanString(b []byte, i int) (string []byte, end int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	for at := i + 1; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return nil, -1
		}
		at += n
		slashes := at
		for slashes > i+1 && b[slashes-1] == '\\' {
			slashes--
		}
		if (at-slashes)%2 == 0 {
			return b[i : at+1], at + 1
		}
		at++
	}
}

// scanValue returns the index after the JSON value at index i. If no valid value begins there, it returns -1.
func scanValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			if _, i = scanString(b, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return -1
			}
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default:
			for i < len(b) && !isDelimiter(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// isDelimiter reports whether a byte ends a number, true, false or null.
func isDelimiter(c byte) bool {
	switch c {
	case ',', ':', ']', '}', ' ', '\n', '\t', '\r', '"', '{', '[':
		return true
	}
	return false
}

// appendString appends the decoded text of a JSON string to dst. The result ok is false if the value is no JSON
// string.
func appendString(dst, value []byte) ([]byte, bool) {
	if string(value) == "null" {
		return dst, true
	}
	if len(value) < 2 || value[0] != '"' {
		return dst, false
	}
	plain := value[1 : len(value)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		return append(dst, plain...), true
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return dst, false
	}
	return append(dst, s...), true
}
