package document

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Decode decodes one document, YAML or JSON, into the value that v points to. It is strict: an
// unknown field, a wrong type, a duration without unit are flaws with file, line and a hint.
// check then validates the value and names fields as decoding does: agents[0].checks[1].ttl; its
// argument tells a field that is written (count: 0) from one that is left out. All flaws come in
// one Invalid error, in the order of the file; they are its cause.
func Decode(file string, data []byte, v any, check func(written func(field string) bool) model.Flaws) error {
	r := NewReader(file)
	docs := slices.DeleteFunc(r.Documents(data), func(t *Tree) bool { return t.kind == null })
	if len(docs) == 0 && len(r.Flaws) == 0 { // empty: check reports missing fields
		docs = append(docs, &Tree{place: place{1, 1}, kind: mapping})
	}
	switch {
	case len(docs) > 1:
		r.flaw(docs[1].place, "", "put it into a file of its own", "a second document")
	case len(docs) == 1:
		value := reflect.ValueOf(v).Elem()
		d := r.Decoder(docs[0])
		d.root = value.Type()
		d.decodeValue(docs[0], value, "")
		w := d.Written(0)
		if !slices.Contains(w.flawed, "") && !r.Full() { // otherwise nothing of the document is decoded
			r.Flaws = append(r.Flaws, w.Place(check(w.has))...)
		}
	}
	Sort(r.Flaws)
	return r.Flaws.Err()
}

type place struct{ line, column int }

// Written holds the places of the fields of one decoded document or resource.
type Written struct {
	File   string
	places map[string]place // by field: spec.alert, spec.targets.groups[1]
	flawed []string         // fields that could not be decoded
}

// Place fills in file, line and column of the flaws of validation: the place of the field or,
// where it is absent, of the nearest field around it. It drops flaws that only follow from a
// field that could not be decoded.
func (w *Written) Place(flaws model.Flaws) model.Flaws {
	flaws = slices.DeleteFunc(flaws, w.followsFrom)
	for _, f := range flaws {
		w.Locate(f)
	}
	return flaws
}

// Locate fills in file, line and column of one flaw.
func (w *Written) Locate(f *model.Flaw) *model.Flaw {
	at := w.find(f.Field)
	f.File, f.Line, f.Column = w.File, at.line, at.column
	return f
}

// followsFrom reports whether a flaw follows from a field that could not be decoded: the field
// itself, one within or around it, or any where the flaw is that a field is missing.
func (w *Written) followsFrom(f *model.Flaw) bool {
	within := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return len(w.flawed) > 0 && f.Absent && !(f.Zero && w.has(f.Field)) || slices.ContainsFunc(w.flawed, func(field string) bool {
		return within(field, f.Field) || within(f.Field, field)
	})
}

// Complete reports whether every field was decoded.
func (w *Written) Complete() bool { return len(w.flawed) == 0 }

// has reports whether the file has the field.
func (w *Written) has(field string) bool {
	_, ok := w.places[field]
	return ok
}

func (w *Written) find(field string) place {
	for {
		if at, ok := w.places[field]; ok || field == "" {
			return at
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
}

// Sort orders flaws by their places in the file.
func Sort(flaws model.Flaws) {
	slices.SortStableFunc(flaws, func(a, b *model.Flaw) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
}
