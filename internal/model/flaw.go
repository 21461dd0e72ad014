package model

import (
	"fmt"
	"strings"
)

// Flaw is one thing wrong with a resource that somebody wrote.
type Flaw struct {
	File   string `json:"file,omitempty"` // where known
	Line   int    `json:"line,omitempty"` // from 1; zero: unknown
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"` // spec.alert.failAfter
	Text   string `json:"text"`            // what is wrong
	Hint   string `json:"hint,omitempty"`  // what to write

	// Absent: it is wrong because something is missing. Beside a field that cannot be
	// read, it says nothing new: that may be the one that is missing.
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

// MaxFlaws is how many flaws are looked for: who has made so many knows enough.
const MaxFlaws = 100

// Flaws are all that was found at once, at most about MaxFlaws.
type Flaws []*Flaw

// Shorten cuts what somebody else wrote down to what fits a message.
func Shorten(text string) string { return Truncate(text, 500) }

// Err is an Invalid error with one line for each flaw and the Flaws as its cause;
// nil if there is none.
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
