package model

import (
	"reflect"
	"slices"
)

// DecodeDocument reads one document that a person wrote, YAML or JSON, into what v points
// to, as strictly as resources are read: an unknown field, a wrong type, a duration
// without unit are flaws with file, line and what to write. check then finds what else is
// wrong with what was read, and names fields as decoding does: agents[0].checks[1].ttl; it is told
// which fields are written: count: 0 is not what a count that was left out is.
// All flaws come in one Invalid error, in the order of the file, whose cause they are.
func DecodeDocument(file string, data []byte, v any, check func(written func(field string) bool) Flaws) error {
	r := &reader{file: file}
	docs := slices.DeleteFunc(r.documents(data), func(t *tree) bool { return t.kind == null })
	if len(docs) == 0 && len(r.flaws) == 0 { // empty: check says what is missing
		docs = append(docs, &tree{place: place{1, 1}, kind: mapping})
	}
	switch {
	case len(docs) > 1:
		r.flaw(docs[1].place, "", "put it into a file of its own", "a second document")
	case len(docs) == 1:
		value := reflect.ValueOf(v).Elem()
		d := decoder{reader: r, places: map[string]place{"": docs[0].place}, root: value.Type()}
		d.into(docs[0], value, "")
		w := written{File: file, places: d.places}
		for _, f := range r.flaws {
			w.flawed = append(w.flawed, f.Field)
		}
		if !slices.Contains(w.flawed, "") && !r.full() { // else nothing is known of the whole
			r.flaws = append(r.flaws, w.At(slices.DeleteFunc(check(w.stands), w.followsFrom))...)
		}
	}
	r.flaws.sort()
	return r.flaws.Err()
}
