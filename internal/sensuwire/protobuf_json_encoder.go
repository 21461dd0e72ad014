// Package sensuwire encodes and decodes the messages between agents and backends of Sensu Go 6, over WebSocket, in
// protobuf or JSON. The load tester uses the agent's end (internal/load/sensu), the source of Sensu agents the backend's
// (internal/source/sensu).
//
// One table of fields per message serves both encodings: protobuf_json_decoder.go reads by such tables, protobuf_json_encoder.go writes. Decoders read
// the fields that somebody needs and skip the rest. Slices that they return lie in the message. The package has no state.
// Start reading at protobuf_json_encoder.go; received_event.go is the hot path.
package sensuwire

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// encoder appends the encoded fields of a Sensu message to a buffer, in protobuf or JSON. A zero value is left
// out.
type encoder struct {
	codec Codec
	b     []byte
	comma bool // JSON: the object has a member
}

// encode encodes a message whose fields the given function writes, and appends the bytes to dst. The function
// write appends the fields of the message.
func (c Codec) encode(dst []byte, write func(*encoder)) []byte {
	e := encoder{codec: c, b: dst}
	e.writeObject(func() { write(&e) })
	return e.b
}

// writeObject writes a JSON object or protobuf message with the fields that the given function appends. In JSON
// it adds the braces. It calls the function write to append the members.
func (e *encoder) writeObject(write func()) {
	if e.codec == Protobuf {
		write()
		return
	}
	outer := e.comma
	e.b, e.comma = append(e.b, '{'), false
	write()
	e.b, e.comma = append(e.b, '}'), outer
}

// beginMember writes the key of a JSON member, before its value. The caller then writes the value.
func (e *encoder) beginMember(name string) {
	if e.comma {
		e.b = append(e.b, ',')
	}
	e.b = append(append(append(e.b, '"'), name...), `":`...)
	e.comma = true
}

// writeString writes a JSON string.
func (e *encoder) writeString(text string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("BUG: " + err.Error()) // a string has an encoding
	}
	e.b = append(e.b, quoted...)
}

// writeTag writes a protobuf tag, which consists of field number and wire type.
func (e *encoder) writeTag(number int, kind protowire.Type) {
	e.b = protowire.AppendTag(e.b, protowire.Number(number), kind)
}

// writeText writes a text field, omitted if empty.
func (e *encoder) writeText(number int, name, writeText string) {
	switch {
	case writeText == "":
	case e.codec == JSON:
		e.beginMember(name)
		e.writeString(writeText)
	default:
		e.writeTag(number, protowire.BytesType)
		e.b = protowire.AppendString(e.b, writeText)
	}
}

// writeTexts writes a field that is a list of texts. In protobuf an empty text is an item, too.
func (e *encoder) writeTexts(number int, name string, list []string) {
	if e.codec == JSON {
		e.writeArray(number, name, len(list), func(i int) { e.writeString(list[i]) })
		return
	}
	for _, text := range list {
		e.writeTag(number, protowire.BytesType)
		e.b = protowire.AppendString(e.b, text)
	}
}

// writeInt writes an integer field, omitted if zero.
func (e *encoder) writeInt(number int, name string, n int64) {
	switch {
	case n == 0:
	case e.codec == JSON:
		e.beginMember(name)
		e.b = strconv.AppendInt(e.b, n, 10)
	default:
		e.writeTag(number, protowire.VarintType)
		e.b = protowire.AppendVarint(e.b, uint64(n))
	}
}

// writeBool writes a boolean field, omitted if false.
func (e *encoder) writeBool(number int, name string, is bool) {
	switch {
	case is && e.codec == JSON:
		e.beginMember(name)
		e.b = append(e.b, "true"...)
	case is:
		e.writeInt(number, name, 1)
	}
}

// writeFloat writes a floating-point field, omitted if zero.
func (e *encoder) writeFloat(number int, name string, f float64) {
	switch {
	case f == 0:
	case e.codec == JSON:
		e.beginMember(name)
		e.b = strconv.AppendFloat(e.b, f, 'g', -1, 64)
	default:
		e.writeTag(number, protowire.Fixed64Type)
		e.b = protowire.AppendFixed64(e.b, math.Float64bits(f))
	}
}

// writeMessage writes a field that contains another message. The function write appends the message's fields.
func (e *encoder) writeMessage(number int, name string, write func()) {
	if e.codec == JSON {
		e.beginMember(name)
		e.writeObject(write)
		return
	}
	start := len(e.b)
	write()
	var room [2 * 10]byte
	header := protowire.AppendVarint(protowire.AppendTag(room[:0], protowire.Number(number), protowire.BytesType), uint64(len(e.b)-start))
	e.b = slices.Insert(e.b, start, header...)
}

// writeMessages writes a field that is a list of n messages. The function write appends the fields of the i-th
// message.
func (e *encoder) writeMessages(number int, name string, n int, write func(i int)) {
	if e.codec == JSON {
		e.writeArray(number, name, n, func(i int) { e.writeObject(func() { write(i) }) })
		return
	}
	for i := range n {
		e.writeMessage(number, name, func() { write(i) })
	}
}

// writeArray writes a JSON array of n items. The function write appends the i-th item.
func (e *encoder) writeArray(_ int, name string, n int, write func(i int)) {
	if n == 0 {
		return
	}
	e.beginMember(name)
	for i := range n {
		e.b = append(e.b, "[,"[min(i, 1)])
		write(i)
	}
	e.b = append(e.b, ']')
}

// writeTextMap writes a field that is a map of texts, ascending by key.
func (e *encoder) writeTextMap(number int, name string, m map[string]string) {
	keys := slices.Sorted(maps.Keys(m))
	if e.codec == Protobuf {
		e.writeMessages(number, name, len(keys), func(i int) { e.writeText(1, "", keys[i]); e.writeText(2, "", m[keys[i]]) })
		return
	}
	if len(keys) == 0 {
		return
	}
	e.writeMessage(number, name, func() {
		for _, k := range keys {
			e.beginMember(k) // keys of labels and headers need no escape
			e.writeString(m[k])
		}
	})
}

// Media types of the encodings in the headers of the handshake. An agent requests one by Accept. It uses protobuf if a
// line of Accept in the answer is exactly that, else JSON.
const (
	MediaProto = "application/octet-stream"
	MediaJSON  = "application/json"
)

// Codec is the encoding of a Sensu connection, protobuf or JSON. The WebSocket handshake decides.
type Codec uint8

const (
	// Protobuf is the default of agents and backends. Its field numbers come from sensu-go's api/core/v2: event.proto,
	// entity.proto, check.proto, meta.proto.
	Protobuf Codec = iota
	// JSON has the same messages as text.
	JSON
)

// Types of messages. A message is one WebSocket frame: its type, a line feed, its body.
const (
	TypeKeepalive    = "keepalive"     // agent: an event with the machine and the check keepalive
	TypeEvent        = "event"         // agent: the result of a check, or metrics
	TypeEntityConfig = "entity_config" // backend
	TypeCheckRequest = "check_request" // backend
)

// Parse splits a message of a Sensu connection into its type and its body, without copying the bytes.
func Parse(message []byte) (kind, body []byte, err error) {
	kind, body, ok := bytes.Cut(message, []byte("\n"))
	if !ok {
		return nil, nil, model.Errorf(model.Invalid, "a message of %d bytes has no type before a line feed", len(message))
	}
	return kind, body, nil
}

// NewMessage returns a buffer that begins with a message's type, ready for the message's body. The buffer has
// space for wsconn's frame header, and then the type. The body is appended.
func NewMessage(kind string) []byte {
	return append(append(make([]byte, wsconn.Headroom, wsconn.Headroom+1024), kind...), '\n')
}

// EscapeTemplate escapes {{ in a text, so that Sensu agents do not expand the text as a template. So the agent
// does not expand the text as a template token. The agent runs Go's template over the check, encoded as JSON,
// so a quotation mark must not be inside the braces.
func EscapeTemplate(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return strings.ReplaceAll(text, "{{", "{{`{{`}}")
}

// UnknownEntity is the name of an entity_config that leaves the agent's own configuration unchanged.
const UnknownEntity = "not found"

// Config is Sensu's message entity_config, with which the backend configures an agent. In it the backend sends
// an agent its configuration.
type Config struct {
	Name          string // UnknownEntity: the agent keeps its own
	Namespace     string
	Subscriptions []string
}

// objectMeta is Sensu's ObjectMeta, with the name and namespace of a resource.
type objectMeta struct{ name, namespace string }

var metaFields = []field[objectMeta]{
	textField(1, "name", func(m *objectMeta) *string { return &m.name }),
	textField(2, "namespace", func(m *objectMeta) *string { return &m.namespace }),
}

// writeMeta writes a name and namespace as Sensu's ObjectMeta.
func (e *encoder) writeMeta(number int, name, namespace string) {
	e.writeMetaWithLabels(number, name, namespace, nil)
}

// writeMetaWithLabels writes a name, namespace and labels as Sensu's ObjectMeta.
func (e *encoder) writeMetaWithLabels(number int, name, namespace string, labels map[string]string) {
	e.writeMessage(number, "metadata", func() {
		e.writeText(1, "name", name)
		e.writeText(2, "namespace", namespace)
		e.writeTextMap(3, "labels", labels)
	})
}

// AppendConfig appends an encoded entity_config (an agent's configuration) to a buffer.
func (c Codec) AppendConfig(dst []byte, m *Config) []byte {
	return c.encode(dst, func(e *encoder) {
		e.writeMeta(1, m.Name, m.Namespace)
		e.writeTexts(4, "subscriptions", m.Subscriptions)
	})
}

// ParseConfig decodes the message entity_config, an agent's configuration.
func (c Codec) ParseConfig(body []byte) (m Config, err error) {
	fields := []field[Config]{
		messageField(1, "metadata", metaFields, func(m *Config, x *objectMeta) { m.Name, m.Namespace = x.name, x.namespace }),
		textsField(4, "subscriptions", func(m *Config) *[]string { return &m.Subscriptions }),
	}
	return m, c.decode("an entity_config", body, func(v fieldValue) bool { return readFields(v, fields, &m) })
}
