// Package conversion has the types that the imports from other systems share: files go in, resources and notes come out.
//
// Pure: no goroutines, no locks. Start reading at Result.
package conversion

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// File is one file of another monitoring system that a user wants to import, with its content. Notes refer to
// the file by its name.
type File struct {
	Name string
	Data []byte
}

// Note is a remark about one part of an imported file.
type Note struct {
	Where       string `json:"where"`   // FILE:LINE, or FILE
	Subject     string `json:"subject"` // CheckConfig default/disk, technique ntp
	Text        string `json:"text"`
	NotImported bool   `json:"notImported,omitempty"` // the part was not imported; false: it was imported in another form

	// Missing is the resource that a file of Sensu names and that neither the files nor the server have: "handler NAME",
	// "handler NAME metrics", "pipeline NAME", "hook NAME TYPE", "asset NAME", "filter NAME" or "mutator NAME". Empty: the note has
	// another subject.
	Missing string `json:"missing,omitempty"`

	file string
	line int
}

// Result holds the outcome of an import, with the converted resources and the notes for the user.
type Result struct {
	Resources []*model.Resource `json:"resources"` // each valid
	Notes     []Note            `json:"notes,omitempty"`
}

// AddNote adds a note about one part of a file, and returns the note. The part begins at the given line. Line 0 stands
// for the whole file. lost: the part was not imported.
func (r *Result) AddNote(file string, line int, what string, lost bool, format string, args ...any) *Note {
	n := Note{Where: file, Subject: what, Text: fmt.Sprintf(format, args...), NotImported: lost, file: file, line: line}
	if line > 0 {
		n.Where = fmt.Sprintf("%s:%d", file, line)
	}
	r.Notes = append(r.Notes, n)
	return &r.Notes[len(r.Notes)-1]
}

// SortNotes sorts the notes by file and line.
func (r *Result) SortNotes() {
	slices.SortStableFunc(r.Notes, func(a, b Note) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line)) })
}

// LostCount returns the number of notes about parts that the import had to leave out.
func (r *Result) LostCount() (n int) {
	for i := range r.Notes {
		if r.Notes[i].NotImported {
			n++
		}
	}
	return n
}
