package v1

import "github.com/muster-fleet/muster/internal/model"

// ErrorType begins the type of every error; the class's label ends it.
const ErrorType = "https://muster-fleet.github.io/errors/"

// Error is an error of RFC 9457 with a hint: the command to type.
type Error struct {
	Type   string       `json:"type" doc:"Ends with the class: invalid, not_found, conflict, …"`
	Title  string       `json:"title" doc:"The class in words."`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty" doc:"What happened, and where."`
	Hint   string       `json:"hint,omitempty" doc:"What to type or change."`
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is one fault of the input.
type FieldError struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"For example query.limit or body.resources."`
}

// Error implements error.
func (e *Error) Error() string { return e.Detail }

// GetStatus returns the HTTP status.
func (e *Error) GetStatus() int { return e.Status }

// ContentType returns the media type of errors.
func (e *Error) ContentType(string) string { return "application/problem+json" }

// AsModel converts the error to its class.
func (e *Error) AsModel() *model.Error {
	class := model.ClassOfHTTP(e.Status)
	text := e.Detail
	for _, f := range e.Errors {
		text += "\n  " + f.Location + ": " + f.Message
	}
	return &model.Error{Class: class, Message: text, Hint: e.Hint}
}
