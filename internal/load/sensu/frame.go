package sensu

import (
	"bytes"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Types of messages. A message is one WebSocket frame: its type, a line feed, its body.
const (
	typeKeepalive    = "keepalive"
	typeEvent        = "event"
	typeEntityConfig = "entity_config"
	typeCheckRequest = "check_request"
)

// maxMessage bounds what a backend may send in one frame; it has no bound of its own.
const maxMessage = 1 << 20

// parseFrame cuts a message into its type and its body, which lie in it.
func parseFrame(message []byte) (kind, body []byte, err error) {
	kind, body, ok := bytes.Cut(message, []byte("\n"))
	if !ok {
		return nil, nil, model.Errorf(model.Invalid, "a message of %d bytes has no type before a line feed", len(message))
	}
	return kind, body, nil
}

// newFrame begins a message for wsconn: its headroom and the type. The body is appended.
func newFrame(kind string) []byte {
	frame := make([]byte, wsconn.Headroom, wsconn.Headroom+1024)
	return append(append(frame, kind...), '\n')
}
