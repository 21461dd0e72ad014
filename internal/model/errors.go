package model

import (
	"errors"
	"fmt"
	"strings"
)

// Class says what kind of failure an error is. The table below is the one place
// that turns a class into an HTTP status, an exit code and a metric label.
type Class uint8

const (
	Internal        Class = iota // a fault of ours
	Invalid                      // the input is wrong: say where and what is right
	NotFound                     // no such thing
	Conflict                     // it exists already, or somebody changed it meanwhile
	Unauthenticated              // who are you?
	Forbidden                    // you may not
	Limited                      // a limit or quota says no
	TooLarge                     // a frame or body over its bound
	Unavailable                  // not now: starting, disk full, stopping, no server
	Guarded                      // refused until confirmed (--yes, --force)
	Stale                        // it is not (any more) as the caller said it must be (If-Match)
	Unsupported                  // this version cannot do it: say what it waits for
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

// Label is the class as a metric label and as the last part of the RFC 9457 type.
func (c Class) Label() string { return classes[c].label }

// HTTP is the status the API answers with.
func (c Class) HTTP() int { return classes[c].http }

// Exit is the exit code of the CLI.
func (c Class) Exit() int { return classes[c].exit }

// ClassOfHTTP finds the class of an answer's status, for clients.
func ClassOfHTTP(status int) Class {
	for i, c := range classes {
		if c.http == status {
			return Class(i)
		}
	}
	if status >= 400 && status < 500 {
		return Invalid // what only HTTP knows: a method, a media type
	}
	return Internal
}

// Error is an operating error that a person will read. Message says what happened
// and where (a wrapped cause included); Hint says what to type or change.
type Error struct {
	Class   Class
	Message string
	Hint    string
	Cause   error
}

func (e *Error) Error() string {
	text := e.Message
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an Error of the class; a %w in the format is its Cause.
func Errorf(class Class, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: class, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// WithHint returns the error with what to type.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// ClassOf finds the class of err: that of the first *Error in its chain, else Internal.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Internal
}

// OneLine returns the message and the hint of an error without line breaks, for a list.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
