package sensuwire

import (
	"bytes"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Media types of the encodings in the headers of the handshake. An agent requests one by Accept. It uses protobuf if a
// line of Accept in the answer is exactly that, else JSON.
const (
	MediaProto = "application/octet-stream"
	MediaJSON  = "application/json"
)

// Codec is the encoding of a connection, agreed in its handshake.
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

// Parse splits a message into its type and its body, without a copy.
func Parse(message []byte) (kind, body []byte, err error) {
	kind, body, ok := bytes.Cut(message, []byte("\n"))
	if !ok {
		return nil, nil, model.Errorf(model.Invalid, "a message of %d bytes has no type before a line feed", len(message))
	}
	return kind, body, nil
}

// NewMessage returns the beginning of a message for wsconn: its headroom and the type. The body is appended.
func NewMessage(kind string) []byte {
	return append(append(make([]byte, wsconn.Headroom, wsconn.Headroom+1024), kind...), '\n')
}

// Literal escapes a text in which the agent expands tokens. The agent runs Go's template over the check, encoded as JSON,
// so a quotation mark must not be inside the braces.
func Literal(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return strings.ReplaceAll(text, "{{", "{{`{{`}}")
}

// UnknownEntity is the name of an entity_config that leaves the agent's own configuration unchanged.
const UnknownEntity = "not found"

// Config is an entity_config: the configuration that the backend wants of the agent.
type Config struct {
	Name          string // UnknownEntity: the agent keeps its own
	Namespace     string
	Subscriptions []string
}

// meta is an ObjectMeta.
type meta struct{ name, namespace string }

var metaFields = []field[meta]{
	textField(1, "name", func(m *meta) *string { return &m.name }),
	textField(2, "namespace", func(m *meta) *string { return &m.namespace }),
}

func (e *encoder) meta(number int, name, namespace string) {
	e.metaOf(number, name, namespace, nil)
}

func (e *encoder) metaOf(number int, name, namespace string, labels map[string]string) {
	e.message(number, "metadata", func() {
		e.text(1, "name", name)
		e.text(2, "namespace", namespace)
		e.pairs(3, "labels", labels)
	})
}

// AppendConfig appends an entity_config.
func (c Codec) AppendConfig(dst []byte, m *Config) []byte {
	return c.encode(dst, func(e *encoder) {
		e.meta(1, m.Name, m.Namespace)
		e.texts(4, "subscriptions", m.Subscriptions)
	})
}

// ParseConfig decodes an entity_config.
func (c Codec) ParseConfig(body []byte) (m Config, err error) {
	fields := []field[Config]{
		messageField(1, "metadata", metaFields, func(m *Config, x *meta) { m.Name, m.Namespace = x.name, x.namespace }),
		textsField(4, "subscriptions", func(m *Config) *[]string { return &m.Subscriptions }),
	}
	return m, c.decode("an entity_config", body, func(v value) bool { return readFields(v, fields, &m) })
}
