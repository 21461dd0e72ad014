package sensuctl

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// sensuError is an error in the form of Sensu's API.
type sensuError struct {
	status  int
	Message string `json:"message"`
	Code    int    `json:"code"`
}

func (e *sensuError) Error() string { return e.Message }

// Codes of Sensu's errors. sensuctl dump passes over a type that fails with codeNotFound, whatever the status.
const (
	codeInvalid         = 1
	codeNotFound        = 2
	codeExists          = 3
	codeDenied          = 4
	codeUnauthenticated = 5
)

var codes = map[model.Class]int{
	model.Invalid: codeInvalid, model.TooLarge: codeInvalid, model.Guarded: codeInvalid, model.Limited: codeInvalid,
	model.NotFound: codeNotFound, model.Conflict: codeExists, model.Forbidden: codeDenied, model.Unauthenticated: codeUnauthenticated,
}

// errorOf writes an error as one line with its hint. An internal error is logged, and its text stays on the server.
func (s *Server) errorOf(err error) *sensuError {
	if e := (*sensuError)(nil); errors.As(err, &e) {
		return e
	}
	var e *model.Error
	if !errors.As(err, &e) || e.Class == model.Internal {
		s.log.Error("request of sensuctl failed", "err", err)
		return &sensuError{http.StatusInternalServerError, "internal error; the server's log has the reason", 0}
	}
	hint := e.Hint
	if e.Class == model.Unauthenticated {
		hint = "sensuctl configure"
	}
	message := strings.Join(strings.Fields(e.Message), " ")
	if hint != "" {
		message += " (" + strings.Join(strings.Fields(hint), " ") + ")"
	}
	return &sensuError{e.Class.HTTP(), message, codes[e.Class]}
}

// writeAnswer writes a text as it is and anything else as JSON.
func writeAnswer(w http.ResponseWriter, a answer) {
	if a.next != "" {
		w.Header().Set("Sensu-Continue", a.next)
	}
	text, plain := a.body.(string)
	w.Header().Set("Content-Type", "application/json")
	if plain {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(a.status)
	switch {
	case plain:
		_, _ = io.WriteString(w, text+"\n")
	case a.body != nil:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(a.body)
	}
}
