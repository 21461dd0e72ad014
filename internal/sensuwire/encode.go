package sensuwire

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// encoder appends fields in either encoding. A zero value is left out.
type encoder struct {
	codec Codec
	b     []byte
	comma bool // JSON: the object has a member
}

// encode appends a message whose fields write adds.
func (c Codec) encode(dst []byte, write func(*encoder)) []byte {
	e := encoder{codec: c, b: dst}
	e.object(func() { write(&e) })
	return e.b
}

// object writes the braces of a JSON object.
func (e *encoder) object(write func()) {
	if e.codec == Protobuf {
		write()
		return
	}
	outer := e.comma
	e.b, e.comma = append(e.b, '{'), false
	write()
	e.b, e.comma = append(e.b, '}'), outer
}

// key begins a member of a JSON object.
func (e *encoder) key(name string) {
	if e.comma {
		e.b = append(e.b, ',')
	}
	e.b = append(append(append(e.b, '"'), name...), `":`...)
	e.comma = true
}

func (e *encoder) quote(text string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("BUG: " + err.Error()) // a string has an encoding
	}
	e.b = append(e.b, quoted...)
}

func (e *encoder) tag(number int, kind protowire.Type) {
	e.b = protowire.AppendTag(e.b, protowire.Number(number), kind)
}

func (e *encoder) text(number int, name, text string) {
	switch {
	case text == "":
	case e.codec == JSON:
		e.key(name)
		e.quote(text)
	default:
		e.tag(number, protowire.BytesType)
		e.b = protowire.AppendString(e.b, text)
	}
}

// texts writes a list of texts. In protobuf an empty text is an item, too.
func (e *encoder) texts(number int, name string, list []string) {
	if e.codec == JSON {
		e.list(number, name, len(list), func(i int) { e.quote(list[i]) })
		return
	}
	for _, text := range list {
		e.tag(number, protowire.BytesType)
		e.b = protowire.AppendString(e.b, text)
	}
}

func (e *encoder) int(number int, name string, n int64) {
	switch {
	case n == 0:
	case e.codec == JSON:
		e.key(name)
		e.b = strconv.AppendInt(e.b, n, 10)
	default:
		e.tag(number, protowire.VarintType)
		e.b = protowire.AppendVarint(e.b, uint64(n))
	}
}

func (e *encoder) bool(number int, name string, is bool) {
	switch {
	case is && e.codec == JSON:
		e.key(name)
		e.b = append(e.b, "true"...)
	case is:
		e.int(number, name, 1)
	}
}

func (e *encoder) float(number int, name string, f float64) {
	switch {
	case f == 0:
	case e.codec == JSON:
		e.key(name)
		e.b = strconv.AppendFloat(e.b, f, 'g', -1, 64)
	default:
		e.tag(number, protowire.Fixed64Type)
		e.b = protowire.AppendFixed64(e.b, math.Float64bits(f))
	}
}

// message writes a message.
func (e *encoder) message(number int, name string, write func()) {
	if e.codec == JSON {
		e.key(name)
		e.object(write)
		return
	}
	start := len(e.b)
	write()
	var room [2 * 10]byte
	header := protowire.AppendVarint(protowire.AppendTag(room[:0], protowire.Number(number), protowire.BytesType), uint64(len(e.b)-start))
	e.b = slices.Insert(e.b, start, header...)
}

// messages writes a list of n messages.
func (e *encoder) messages(number int, name string, n int, write func(i int)) {
	if e.codec == JSON {
		e.list(number, name, n, func(i int) { e.object(func() { write(i) }) })
		return
	}
	for i := range n {
		e.message(number, name, func() { write(i) })
	}
}

// list writes a JSON array of n items.
func (e *encoder) list(_ int, name string, n int, write func(i int)) {
	if n == 0 {
		return
	}
	e.key(name)
	for i := range n {
		e.b = append(e.b, "[,"[min(i, 1)])
		write(i)
	}
	e.b = append(e.b, ']')
}

// pairs writes a map of texts, ascending by key.
func (e *encoder) pairs(number int, name string, m map[string]string) {
	keys := slices.Sorted(maps.Keys(m))
	if e.codec == Protobuf {
		e.messages(number, name, len(keys), func(i int) { e.text(1, "", keys[i]); e.text(2, "", m[keys[i]]) })
		return
	}
	if len(keys) == 0 {
		return
	}
	e.message(number, name, func() {
		for _, k := range keys {
			e.key(k) // keys of labels and headers need no escape
			e.quote(m[k])
		}
	})
}
