package model

import (
	"cmp"
	"fmt"
	"slices"
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

// Brief cuts what somebody else wrote down to what fits a message.
func Brief(text string) string { return Cut(text, 500) }

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
	written
}

// written is where something stands that somebody wrote.
type written struct {
	File   string
	places map[string]place // by field: spec.alert, spec.targets.groups[1]
	flawed []string         // fields that could not be read as written
}

type place struct{ line, column int }

// At fills in file, line and column of flaws: those of the field or, where the field
// is absent, of the nearest one around it.
func (w *written) At(flaws Flaws) Flaws {
	for _, f := range flaws {
		f.File = w.File
		at := w.find(f.Field)
		f.Line, f.Column = at.line, at.column
	}
	return flaws
}

// followsFrom says whether a flaw is but the consequence of a field that could not be
// read: of itself, of one within or around it, or, where something is missing, of any.
func (w *written) followsFrom(f *Flaw) bool {
	within := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return len(w.flawed) > 0 && f.Absent && !(f.Zero && w.stands(f.Field)) || slices.ContainsFunc(w.flawed, func(field string) bool {
		return within(field, f.Field) || within(f.Field, field)
	})
}

// stands says whether a field is there.
func (w *written) stands(field string) bool {
	_, there := w.places[field]
	return there
}

func (w *written) find(field string) place {
	for {
		if at, ok := w.places[field]; ok || field == "" {
			return at
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
}

// Read decodes what a person wrote and checks each resource: all flaws of form and
// content in one error, each with its place. It is what `lint` and `apply` do first.
func (rules Rules) Read(file string, data []byte) ([]Located, error) {
	list, flaws := decodeAll(file, data)
	for i := range list {
		if len(flaws) >= MaxFlaws {
			break
		}
		found := slices.DeleteFunc(rules.Check(&list[i].Resource), list[i].followsFrom)
		flaws = append(flaws, list[i].At(found)...)
	}
	flaws.sort()
	return list, flaws.Err()
}

// sort puts flaws into the order of the file.
func (f Flaws) sort() {
	slices.SortStableFunc(f, func(a, b *Flaw) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
}
