package op

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// StatusRecorder is a ResponseWriter that records the HTTP status of the answer.
type StatusRecorder struct {
	http.ResponseWriter
	Status int // 0: nothing is written
}

// WriteHeader records the HTTP status, and passes the status to the wrapped writer.
func (r *StatusRecorder) WriteHeader(status int) {
	r.Status = cmp.Or(r.Status, status)
	r.ResponseWriter.WriteHeader(status)
}

// Write writes the body and, if no status was set, records status 200
func (r *StatusRecorder) Write(p []byte) (int, error) {
	r.Status = cmp.Or(r.Status, http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the wrapped writer.
func (r *StatusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteJSON writes v as a JSON answer.
func WriteJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// HandleHealth answers /livez, and /readyz with the reasons why the server is not ready.
func HandleHealth(mux *http.ServeMux, notReady func() []string) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		reasons := notReady()
		if len(reasons) == 0 {
			fmt.Fprintln(w, "ok")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, line := range reasons {
			fmt.Fprintln(w, line)
		}
	})
}

// classTitles are the titles of error answers, by the class of the error.
var classTitles = [...]string{
	model.Internal:        "Internal error",
	model.Invalid:         "Invalid input",
	model.NotFound:        "Not found",
	model.Conflict:        "Conflict",
	model.Unauthenticated: "Not logged in",
	model.Forbidden:       "Forbidden",
	model.Limited:         "Limit reached",
	model.TooLarge:        "Too large",
	model.Unavailable:     "Not now",
	model.Guarded:         "Confirmation required",
	model.Stale:           "Precondition failed",
	model.Unsupported:     "Not supported",
}

// NewErrorAnswer converts an error to the API's JSON error format (RFC 9457)
func NewErrorAnswer(class model.Class, detail, hint string) *v1.Error {
	return &v1.Error{
		Type: v1.ErrorType + class.Label(), Title: classTitles[class], Status: class.HTTP(), Detail: detail, Hint: hint,
	}
}

// CallerError converts an error of an operation to the error for the caller, without internal details. The
// cause of an internal error is logged and not shown.
func (r *Routes) CallerError(operation string, err error) error {
	var ready huma.StatusError
	if errors.As(err, &ready) {
		return ready // 304, or a problem made here
	}
	var known *model.Error
	if errors.As(err, &known) && known.Class != model.Internal {
		answer := NewErrorAnswer(known.Class, known.Message, known.Hint)
		answer.Resource, answer.Field = known.Resource, known.Field
		return answer
	}
	switch {
	case errors.Is(err, context.Canceled):
		return NewErrorAnswer(model.Unavailable, "the client cancelled the request", "")
	case errors.Is(err, context.DeadlineExceeded):
		return NewErrorAnswer(model.Unavailable, "the time limit of the request ended", "try again, or ask for less")
	}
	r.Logger.Error("request failed", "operation", operation, "err", err)
	return NewErrorAnswer(model.Internal, "internal error: see the server's log", "read the log, or run on the server: muster doctor --data DIR")
}

// WriteFailure writes the error of an API operation as the answer. HandleRaw registered the operation.
func (r *Routes) WriteFailure(w http.ResponseWriter, operation string, err error) {
	if p := (*v1.Error)(nil); errors.As(r.CallerError(operation, err), &p) {
		WriteErrorAnswer(w, p)
	}
}

// WriteError writes an error as an answer outside of huma, the HTTP framework.
func WriteError(w http.ResponseWriter, err *model.Error) {
	if err.Class == model.Unauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="muster"`)
	}
	WriteErrorAnswer(w, NewErrorAnswer(err.Class, err.Message, err.Hint))
}

// WriteErrorAnswer writes an error that is already in the API's JSON error format as the answer
func WriteErrorAnswer(w http.ResponseWriter, p *v1.Error) {
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// WriteHumaError writes an error as the answer from a middleware of huma, the HTTP framework.
func WriteHumaError(ctx huma.Context, err *model.Error) {
	p := NewErrorAnswer(err.Class, err.Message, err.Hint)
	ctx.SetHeader("Content-Type", p.ContentType(""))
	ctx.SetStatus(p.Status)
	_ = huma.DefaultJSONFormat.Marshal(ctx.BodyWriter(), p)
}

// TokenRefusalError returns the error for a missing or invalid token, without internal details.
func TokenRefusalError(err error) *model.Error {
	if known := (*model.Error)(nil); errors.As(err, &known) {
		return known
	}
	return model.Errorf(model.Unauthenticated, "the server cannot check the API token").WithHint("log in: muster login")
}

// convertHumaError converts an error of huma, the HTTP framework, to the API's JSON error format. A parameter out of
// range is such an error.
func convertHumaError(_ huma.Context, _ string, v any) (any, error) {
	theirs, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := NewErrorAnswer(model.ClassOfHTTP(theirs.Status), theirs.Detail, "")
	p.Status = theirs.Status
	if theirs.Status == http.StatusUnprocessableEntity || theirs.Status == http.StatusBadRequest {
		p.Hint = "see /api/v1/openapi.json"
	}
	for _, e := range theirs.Errors[:min(len(theirs.Errors), model.MaxFlaws)] {
		if e != nil {
			p.Errors = append(p.Errors, v1.FieldError{Message: model.Shorten(e.Message), Location: model.Shorten(e.Location)})
		}
	}
	return p, nil
}

// StreamHeartbeatInterval is the interval in which a quiet stream sends a comment, so that proxies keep the
// connection open, and in which the server checks the token again.
const StreamHeartbeatInterval = 15 * time.Second

// streamWriteTimeout is the time for which a client may block one write before the server closes the stream.
const streamWriteTimeout = 10 * time.Second

// EventStream writes Server-Sent Events to one client. The server disconnects a client that blocks one write for
// longer than streamWriteTimeout.
type EventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// NewEventStream starts a stream of Server-Sent Events by setting its headers.
func NewEventStream(w http.ResponseWriter) *EventStream {
	w.Header().Set("Content-Type", streamType)
	w.Header().Set("X-Accel-Buffering", "no")
	return &EventStream{w, http.NewResponseController(w)}
}

// Send writes one message of an event stream, with v as JSON. An empty kind means the default type of Server-Sent
// Events.
func (e *EventStream) Send(kind string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message of an event stream: %w", err)
	}
	if kind != "" {
		kind = "event: " + kind + "\n"
	}
	return e.Write(kind + "data: " + string(data) + "\n\n")
}

// End sends the last message of an event stream, with the reason for the end.
func (e *EventStream) End(reason string) error { return e.Write("event: end\n: " + reason + "\n\n") }

// Write writes a text as Server-Sent Events, and flushes the text to the client.
func (e *EventStream) Write(text string) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) // not every writer has deadlines
	defer e.control.SetWriteDeadline(time.Time{})                      // over HTTP/2 the deadline would end a stream to which nobody writes
	if _, err := fmt.Fprint(e.w, text); err != nil {
		return err
	}
	return e.control.Flush()
}

// isStream reports whether the answer of an operation is a stream of Server-Sent Events.
func isStream(o huma.Operation) bool {
	ok := o.Responses["200"]
	return ok != nil && ok.Content[streamType] != nil
}

// streamType is the media type of Server-Sent Events.
const streamType = "text/event-stream"

// StreamResponse returns the description of a stream of Server-Sent Events for the OpenAPI document.
func StreamResponse(description string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: description,
		Content:     map[string]*huma.MediaType{streamType: {Schema: &huma.Schema{Type: "string"}}},
	}}
}
