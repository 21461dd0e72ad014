package model

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Class is the class of an error, such as not found, which decides HTTP status and exit code. One table maps it to an
// HTTP status, an exit code and a metric label.
type Class uint8

const (
	Internal        Class = iota // a defect in Muster
	Invalid                      // wrong input; the message names the wrong field and the correct form
	NotFound                     // the object does not exist
	Conflict                     // the object exists already, or was changed meanwhile
	Unauthenticated              // missing or wrong credentials
	Forbidden                    // not allowed for this subject
	Limited                      // over a limit or quota
	TooLarge                     // a frame or body over its bound
	Unavailable                  // temporary failure: starting, stopping, disk full, no server
	Guarded                      // needs a confirmation (--yes, --force)
	Stale                        // the object differs from the revision that the caller requires (If-Match)
	Unsupported                  // not possible in this version
)

var classes = [...]struct {
	label string
	http  int
	exit  int
}{
	Internal:        {"internal", 500, 1},
	Invalid:         {"invalid", 422, 2},
	NotFound:        {"not_found", 404, 3},
	Conflict:        {"conflict", 409, 4},
	Unauthenticated: {"unauthenticated", 401, 5},
	Forbidden:       {"forbidden", 403, 6},
	Limited:         {"limited", 429, 7},
	TooLarge:        {"too_large", 413, 8},
	Unavailable:     {"unavailable", 503, 9},
	Guarded:         {"guarded", 428, 10},
	Stale:           {"stale", 412, 11},
	Unsupported:     {"unsupported", 501, 12},
}

// Label returns the name of an error class, for metric labels and RFC 9457 error types.
func (c Class) Label() string { return classes[c].label }

// HTTP returns the API's HTTP status for errors of the class.
func (c Class) HTTP() int { return classes[c].http }

// Exit returns the exit code of the command muster for errors of the class.
func (c Class) Exit() int { return classes[c].exit }

// ClassOfHTTP returns the error class for the HTTP status of an answer.
func ClassOfHTTP(status int) Class {
	for i, c := range classes {
		if c.http == status {
			return Class(i)
		}
	}
	if status >= 400 && status < 500 {
		return Invalid // other errors of HTTP, such as a wrong method or media type
	}
	return Internal
}

// Error is an error for people, with class, message and hint. Message names the failure and its object (with the text
// of a wrapped cause); Hint names the command to type or the change to make.
type Error struct {
	Class   Class
	Message string
	Hint    string
	Cause   error
	// Resource is the declared resource that is wrong, such as directive/sshd. Field is its wrong field, if known.
	Resource, Field string
}

// Error returns the message of the error.
func (e *Error) Error() string {
	text := e.Message
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	return text
}

// Unwrap returns the cause of the error.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an Error with a class and a formatted message. The argument for %w becomes its Cause.
func Errorf(class Class, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: class, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// WithHint sets the hint and returns the error.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// At sets the resource and field that are wrong, and returns the error.
func (e *Error) At(resource, field string) *Error {
	e.Resource, e.Field = resource, field
	return e
}

// ClassOf returns the class of the first *Error that err wraps, else Internal.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Internal
}

// OneLine formats an error and its hint as one line.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Flaw is one validation error in a resource file, with its file, line and field.
type Flaw struct {
	File   string `json:"file,omitempty"` // where known
	Line   int    `json:"line,omitempty"` // from 1; zero: unknown
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"` // spec.alert.failAfter
	Text   string `json:"text"`            // the error
	Hint   string `json:"hint,omitempty"`  // the correction

	// Absent marks the flaw of a missing field. It is dropped if the same resource has an unreadable field, which may be
	// the missing one.
	Absent bool `json:"-"`
	Zero   bool `json:"-"` // the field is absent or zero; count: 0 in the file is not absent
}

// Error returns the error text with file, line and field.
func (f *Flaw) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		b.WriteByte(':')
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if f.Field != "" {
		b.WriteString(f.Field)
		b.WriteString(": ")
	}
	b.WriteString(f.Text)
	if f.Hint != "" {
		b.WriteString("; ")
		b.WriteString(f.Hint)
	}
	return b.String()
}

// MaxFlaws bounds the flaws that reading one input reports.
const MaxFlaws = 100

// Flaws is a list of validation errors in one file or request. Errors beyond about MaxFlaws are left out.
type Flaws []*Flaw

// Shorten cuts a text from users or other programs to 500 bytes, for use in messages
func Shorten(text string) string { return Truncate(text, 500) }

// Err joins the errors to one error of class Invalid, or returns nil without errors. Each error has one line.
func (f Flaws) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Class: Invalid, Message: f.Error(), Cause: f}
}

// Error returns the texts of all errors, one per line.
func (f Flaws) Error() string {
	lines := make([]string, len(f), len(f)+1)
	for i, flaw := range f {
		lines[i] = flaw.Error()
	}
	if len(f) >= MaxFlaws {
		lines = append(lines, "and perhaps more errors: the check stopped here")
	}
	return strings.Join(lines, "\n")
}

// LogAttr joins an error and its hint into one line for the log, as ReplaceAttr function of slog. It is a
// function for slog.HandlerOptions.ReplaceAttr.
func LogAttr(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok && strings.Contains(err.Error(), "\n  ") {
		return slog.String(a.Key, strings.ReplaceAll(err.Error(), "\n  ", "; "))
	}
	return a
}
