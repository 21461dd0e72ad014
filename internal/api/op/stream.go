package op

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// StreamBeat is the interval in which a quiet stream sends a comment, so that proxies keep it open,
// and checks its token again.
const StreamBeat = 15 * time.Second

// streamWrite is how long a reader may block one write before it is cut off.
const streamWrite = 10 * time.Second

// EventStream writes Server-Sent Events; it cuts off a reader that blocks one write for longer
// than streamWrite.
type EventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// NewEventStream sets the headers of a stream.
func NewEventStream(w http.ResponseWriter) *EventStream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	return &EventStream{w, http.NewResponseController(w)}
}

// Send writes one message of a type (empty: the default type) with v as JSON.
func (e *EventStream) Send(kind string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message of a stream: %w", err)
	}
	if kind != "" {
		kind = "event: " + kind + "\n"
	}
	return e.Write(kind + "data: " + string(data) + "\n\n")
}

// End writes the message that the stream ends, with the reason.
func (e *EventStream) End(reason string) error { return e.Write("event: end\n: " + reason + "\n\n") }

// Write writes text in the form of Server-Sent Events and flushes it.
func (e *EventStream) Write(text string) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(streamWrite)) // not every writer has deadlines
	defer e.control.SetWriteDeadline(time.Time{})               // over HTTP/2 the deadline would end a stream to which nobody writes
	if _, err := fmt.Fprint(e.w, text); err != nil {
		return err
	}
	return e.control.Flush()
}

// StreamResponse describes a stream of Server-Sent Events in the OpenAPI document.
func StreamResponse(description string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: description,
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}},
	}}
}
