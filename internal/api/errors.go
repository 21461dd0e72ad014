package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// titles are the classes in words.
var titles = [...]string{
	model.Internal:        "A fault of the server",
	model.Invalid:         "The input is wrong",
	model.NotFound:        "There is no such thing",
	model.Conflict:        "It exists already, or was changed meanwhile",
	model.Unauthenticated: "Who are you?",
	model.Forbidden:       "You may not",
	model.Limited:         "A limit says no",
	model.TooLarge:        "Too large",
	model.Unavailable:     "Not now",
	model.Guarded:         "Refused until confirmed",
	model.Stale:           "It is not as you said it must be",
	model.Unsupported:     "This version cannot do that",
}

// problem is the one place that gives an error its form.
func problem(class model.Class, detail, hint string) *v1.Error {
	return &v1.Error{
		Type: v1.ErrorType + class.Label(), Title: titles[class], Status: class.HTTP(), Detail: detail, Hint: hint,
	}
}

// errorOf is what the caller hears of an error. What is our own fault is logged, not told.
func (s *server) errorOf(operation string, err error) error {
	var as huma.StatusError
	if errors.As(err, &as) {
		return as // 304, or made here
	}
	var said *model.Error
	if errors.As(err, &said) && said.Class != model.Internal {
		return problem(said.Class, said.Message, said.Hint)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return problem(model.Unavailable, "the request was given up", "")
	case errors.Is(err, context.DeadlineExceeded):
		return problem(model.Unavailable, "the answer took too long", "try again, or ask for less")
	}
	s.Logger.Error("request failed", "operation", operation, "err", err)
	return problem(model.Internal, "a fault of the server; its log says more", "for a report: the log, and muster doctor --data DIR on the server")
}

// writeError answers where huma does not.
func writeError(w http.ResponseWriter, err *model.Error) {
	if err.Class == model.Unauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="muster"`)
	}
	writeProblem(w, problem(err.Class, err.Message, err.Hint))
}

func writeProblem(w http.ResponseWriter, p *v1.Error) {
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// reform gives huma's own errors (a parameter out of range, a broken body) the form
// of ours.
func reform(_ huma.Context, _ string, v any) (any, error) {
	theirs, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := problem(model.ClassOfHTTP(theirs.Status), theirs.Detail, "")
	p.Status = theirs.Status
	if theirs.Status == http.StatusUnprocessableEntity || theirs.Status == http.StatusBadRequest {
		p.Hint = "what is right: /api/v1/openapi.json"
	}
	for _, e := range theirs.Errors[:min(len(theirs.Errors), model.MaxFlaws)] {
		if e != nil {
			p.Errors = append(p.Errors, v1.FieldError{Message: model.Shorten(e.Message), Location: model.Shorten(e.Location)})
		}
	}
	return p, nil
}
