package sensuctl

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// object is one of Sensu's resources, by the names of its JSON.
type object = map[string]any

// Codes of Sensu's errors. sensuctl dump goes on where a type is codeNotFound.
const (
	codeInvalid         = 1
	codeNotFound        = 2
	codeExists          = 3
	codeDenied          = 4
	codeUnauthenticated = 5
)

// refusal is an error as Sensu writes it.
type refusal struct {
	status  int
	Message string `json:"message"`
	Code    int    `json:"code"`
}

func (r *refusal) Error() string { return r.Message }

// refused gives an error Sensu's form: one line, and what to type.
func (s *Server) refused(err error) *refusal {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r
	}
	var said *model.Error
	if !errors.As(err, &said) || said.Class == model.Internal {
		s.log.Error("request of sensuctl failed", "err", err)
		return &refusal{http.StatusInternalServerError, "a fault of the server; its log says more", 0}
	}
	r := &refusal{status: said.Class.HTTP(), Message: said.Message}
	hint := said.Hint
	switch said.Class {
	case model.Invalid, model.TooLarge, model.Guarded, model.Limited:
		r.Code = codeInvalid
	case model.NotFound:
		r.Code = codeNotFound
	case model.Conflict:
		r.Code = codeExists
	case model.Forbidden:
		r.Code = codeDenied
	case model.Unauthenticated:
		r.Code, hint = codeUnauthenticated, "sensuctl configure"
	}
	r.Message = strings.Join(strings.Fields(r.Message), " ")
	if hint != "" {
		r.Message += " (" + strings.Join(strings.Fields(hint), " ") + ")"
	}
	return r
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if body != nil {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(body)
	}
}

// answer is what came of a request.
type answer struct {
	status int
	body   any
	next   string // the token of the next page
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
