package op

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// titles describe the classes.
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

// Problem is the one place that gives an error its form (RFC 9457).
func Problem(class model.Class, detail, hint string) *v1.Error {
	return &v1.Error{
		Type: v1.ErrorType + class.Label(), Title: titles[class], Status: class.HTTP(), Detail: detail, Hint: hint,
	}
}

// ErrorOf returns an error as the caller sees it. A fault of the server is logged, and its cause
// stays in the log.
func (r *Routes) ErrorOf(operation string, err error) error {
	var ready huma.StatusError
	if errors.As(err, &ready) {
		return ready // 304, or a problem made here
	}
	var known *model.Error
	if errors.As(err, &known) && known.Class != model.Internal {
		return Problem(known.Class, known.Message, known.Hint)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Problem(model.Unavailable, "the request was given up", "")
	case errors.Is(err, context.DeadlineExceeded):
		return Problem(model.Unavailable, "the answer took too long", "try again, or ask for less")
	}
	r.Logger.Error("request failed", "operation", operation, "err", err)
	return Problem(model.Internal, "a fault of the server; its log says more", "for a report: the log, and muster doctor --data DIR on the server")
}

// Fail writes the error of an operation that huma does not answer.
func (r *Routes) Fail(w http.ResponseWriter, operation string, err error) {
	if p := (*v1.Error)(nil); errors.As(r.ErrorOf(operation, err), &p) {
		WriteProblem(w, p)
	}
}

// WriteError answers where huma does not.
func WriteError(w http.ResponseWriter, err *model.Error) {
	if err.Class == model.Unauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="muster"`)
	}
	WriteProblem(w, Problem(err.Class, err.Message, err.Hint))
}

// WriteProblem writes an error that has its form.
func WriteProblem(w http.ResponseWriter, p *v1.Error) {
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// WriteHuma answers from a middleware of huma.
func WriteHuma(ctx huma.Context, err *model.Error) {
	p := Problem(err.Class, err.Message, err.Hint)
	ctx.SetHeader("Content-Type", p.ContentType(""))
	ctx.SetStatus(p.Status)
	_ = huma.DefaultJSONFormat.Marshal(ctx.BodyWriter(), p)
}

// Refusal is the error for the bearer of a token that was refused.
func Refusal(err error) *model.Error {
	if known := (*model.Error)(nil); errors.As(err, &known) {
		return known
	}
	return model.Errorf(model.Unauthenticated, "the token cannot be checked").WithHint("muster login")
}

// reform gives huma's own errors (a parameter out of range, a broken body) the form of ours.
func reform(_ huma.Context, _ string, v any) (any, error) {
	theirs, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := Problem(model.ClassOfHTTP(theirs.Status), theirs.Detail, "")
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
