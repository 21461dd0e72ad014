package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Flaw is one thing wrong with a resource that somebody wrote.
type Flaw struct {
	File   string // where known
	Line   int    // from 1; zero: unknown
	Column int
	Field  string // spec.alert.failAfter
	Text   string // what is wrong
	Hint   string // what to write
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

// Brief cuts what somebody else wrote down to what fits a message.
func Brief(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

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

// Located is a resource as somebody wrote it, with the place of each of its fields.
type Located struct {
	Resource
	File   string
	places map[string]place // by field: spec.alert, spec.targets.groups[1]
}

type place struct{ line, column int }

// At fills in file, line and column of flaws: those of the field or, where the field
// is absent, of the nearest one around it.
func (l *Located) At(flaws Flaws) Flaws {
	for _, f := range flaws {
		f.File = l.File
		at := l.find(f.Field)
		f.Line, f.Column = at.line, at.column
	}
	return flaws
}

func (l *Located) find(field string) place {
	for {
		if at, ok := l.places[field]; ok || field == "" {
			return at
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
}

// Read decodes what a person wrote and checks each resource: all flaws of form and
// content in one error, each with its place. It is what `lint` and `apply` do first.
func (rules Rules) Read(file string, data []byte) ([]Located, error) {
	list, err := DecodeResources(file, data)
	var flaws Flaws
	if err != nil && !errors.As(err, &flaws) {
		return nil, err
	}
	for i := range list {
		if len(flaws) >= MaxFlaws {
			break
		}
		flaws = append(flaws, list[i].At(rules.Check(&list[i].Resource))...)
	}
	slices.SortStableFunc(flaws, func(a, b *Flaw) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return list, flaws.Err()
}
