package v1

import "github.com/muster-fleet/muster/internal/model"

// ErrorType begins the type of every error; the class's label ends it.
const ErrorType = "https://muster-fleet.github.io/errors/"

// Error is an error as RFC 9457 writes it, with what to type.
type Error struct {
	Type   string       `json:"type" doc:"Ends with the class: invalid, not_found, conflict, …"`
	Title  string       `json:"title" doc:"The class in words."`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty" doc:"What happened, and where."`
	Hint   string       `json:"hint,omitempty" doc:"What to type or change."`
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is one thing wrong with the input.
type FieldError struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"For example query.limit or body.resources."`
}

// Error implements error.
func (e *Error) Error() string { return e.Detail }

// GetStatus is the HTTP status.
func (e *Error) GetStatus() int { return e.Status }

// ContentType marks the answer as an error's.
func (e *Error) ContentType(string) string { return "application/problem+json" }

// AsModel gives the error back its class.
func (e *Error) AsModel() *model.Error {
	class := model.ClassOfHTTP(e.Status)
	text := e.Detail
	for _, f := range e.Errors {
		text += "\n  " + f.Location + ": " + f.Message
	}
	return &model.Error{Class: class, Message: text, Hint: e.Hint}
}
