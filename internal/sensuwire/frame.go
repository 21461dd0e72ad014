package sensuwire

import (
	"bytes"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Types of messages. A message is one WebSocket frame: its type, a line feed, its body.
const (
	TypeKeepalive    = "keepalive"     // an agent's: an event with the machine and the check keepalive
	TypeEvent        = "event"         // an agent's: what a check returned, or metrics
	TypeEntityConfig = "entity_config" // a backend's
	TypeCheckRequest = "check_request" // a backend's
)

// Parse cuts a message into its type and its body, which lie in it.
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
