package model

import (
	"fmt"
	"strings"
)

// Flaw is one error in a resource, with its place.
type Flaw struct {
	File   string `json:"file,omitempty"` // where known
	Line   int    `json:"line,omitempty"` // from 1; zero: unknown
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"` // spec.alert.failAfter
	Text   string `json:"text"`            // the error
	Hint   string `json:"hint,omitempty"`  // the correction

	// Absent marks a missing field. Next to an unreadable field it is dropped: that field may be the missing one.
	Absent bool `json:"-"`
	Zero   bool `json:"-"` // absent or zero, such as count: 0: where it stands there, it is not absent
}

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

// MaxFlaws bounds the flaws that one reading reports.
const MaxFlaws = 100

// Flaws are all flaws of one reading, about MaxFlaws at most.
type Flaws []*Flaw

// Shorten cuts foreign text to 500 bytes, for messages.
func Shorten(text string) string { return Truncate(text, 500) }

// Err returns an Invalid error with one line per flaw and the Flaws as its cause; nil: no flaws.
func (f Flaws) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Class: Invalid, Message: f.Error(), Cause: f}
}

func (f Flaws) Error() string {
	lines := make([]string, len(f), len(f)+1)
	for i, flaw := range f {
		lines[i] = flaw.Error()
	}
	if len(f) >= MaxFlaws {
		lines = append(lines, "and perhaps more: nobody looked further")
	}
	return strings.Join(lines, "\n")
}
