package document

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/muster-fleet/muster/internal/model"
)

// Tree is one parsed YAML or JSON value with all its inner values, before conversion to Go. Each value has its
// line and column.
type Tree struct {
	place
	kind  valueType
	text  string       // scalar; a number has JSON's spelling
	keys  []mappingKey // mapping, in the order of the file
	items []*Tree
}

// mappingKey is one key of a parsed mapping, with its line, column and value.
type mappingKey struct {
	place
	name  string
	value *Tree
}

// valueType is the type of a YAML or JSON value, such as number, list or mapping.
type valueType uint8

const (
	null valueType = iota
	text
	number
	boolean
	list
	mapping
)

// String returns the name of the type for error messages
func (k valueType) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

// Get returns the value of a key in a mapping, or nil if the key is absent.
func (t *Tree) Get(name string) *Tree {
	for _, k := range t.keys {
		if k.name == name {
			return k.value
		}
	}
	return nil
}

// Names returns the keys of a mapping, in the order of the file.
func (t *Tree) Names() (names []string) {
	for _, k := range t.keys {
		names = append(names, k.name)
	}
	return names
}

// Line returns the number of the line on which the value begins.
func (t *Tree) Line() int { return t.line }

// Text returns the text of a scalar value (a text, number or boolean). Null, lists and mappings give an empty text.
func (t *Tree) Text() string { return t.text }

// IsMapping reports whether the value is a mapping.
func (t *Tree) IsMapping() bool { return t.kind == mapping }

// IsNull reports whether the value is null or empty.
func (t *Tree) IsNull() bool { return t.kind == null }

// IsEmpty reports whether the value is null, an empty text, or a list or mapping without elements.
func (t *Tree) IsEmpty() bool { return t.text == "" && len(t.keys) == 0 && len(t.items) == 0 }

// Items returns the elements of a list, or a single value as the only element. For a single value it returns a
// list with that value alone, and for null no elements.
func (t *Tree) Items() []*Tree {
	switch t.kind {
	case null:
		return nil
	case list:
		return t.items
	}
	return []*Tree{t}
}

// Kind returns the name of the value's type for error messages, such as "a list".
func (t *Tree) Kind() string { return t.kind.String() }

// AppendJSON encodes the parsed value as JSON. Types that implement json.Unmarshaler need JSON.
func (t *Tree) AppendJSON(b []byte) []byte {
	switch t.kind {
	case text:
		quoted, _ := json.Marshal(t.text) // of a string never fails
		return append(b, quoted...)
	case number, boolean:
		return append(b, t.text...)
	case list:
		b = append(b, '[')
		for i, item := range t.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.AppendJSON(b)
		}
		return append(b, ']')
	case mapping:
		b = append(b, '{')
		for i, k := range t.keys {
			if i > 0 {
				b = append(b, ',')
			}
			quoted, _ := json.Marshal(k.name)
			b = append(append(b, quoted...), ':')
			b = k.value.AppendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

const (
	// maxAliased bounds the values that aliases of one file expand to: aliases can name
	// aliases. The size of the file bounds all others.
	maxAliased = 100_000
	maxDepth   = 100
	// maxObject bounds the values of one JSON object: each takes some hundred bytes in the YAML
	// parser, even if it is one byte long.
	maxObject = 100_000
	// maxValues bounds the values of one file.
	maxValues = 1_000_000
)

// Reader parses one YAML or JSON file into trees and collects the errors in the file. Use one reader for one file.
type Reader struct {
	Flaws     model.Flaws
	MaxValues int // of the file; 0: a million, and 100,000 in one JSON object

	file    string
	values  int // parsed so far
	aliases int // depth of aliases around the current value
	aliased int // values parsed within aliases
	skipped int // lines before the current document

	fields map[reflect.Type][]reflect.StructField // of the structs that were decoded into
}

// NewReader returns a reader for a file with the given name. Its errors mention the name.
func NewReader(file string) *Reader { return &Reader{file: file} }

// AddFlaw records a validation error about a field, with the line and column of the field's value. The hint is the text
// to write.
func (r *Reader) AddFlaw(t *Tree, field, hint, format string, args ...any) {
	r.recordFlaw(t.place, field, hint, format, args...)
}

// recordFlaw records an error in the file, up to model.MaxFlaws errors.
func (r *Reader) recordFlaw(at place, field, hint, format string, args ...any) {
	if !r.Full() {
		r.Flaws = append(r.Flaws, &model.Flaw{File: r.file, Line: at.line, Column: at.column,
			Field: model.Shorten(field), Text: model.Shorten(fmt.Sprintf(format, args...)), Hint: model.Shorten(hint)})
	}
}

// Full reports whether the reader has already recorded the maximum number of errors in its file,
// model.MaxFlaws.
func (r *Reader) Full() bool { return len(r.Flaws) >= model.MaxFlaws }

var errTooBig = errors.New("too big")

// checkSize returns an error if a file has too many values or too deep nesting. Limited are the number of values and
// the depth of nesting.
func (r *Reader) checkSize(at place, depth int) error {
	if r.aliases > 0 {
		r.aliased++
	}
	most := cmp.Or(r.MaxValues, maxValues)
	if r.values++; r.values > most {
		r.recordFlaw(at, "", "split the file", "more than %d values in one file", most)
		return errTooBig
	}
	if r.Full() {
		return errTooBig
	}
	if r.aliased > maxAliased {
		r.recordFlaw(at, "", "replace aliases with their values", "the aliases expand to more than %d values", maxAliased)
		return errTooBig
	}
	if depth > maxDepth {
		r.recordFlaw(at, "", "", "nested more than %d deep", maxDepth)
		return errTooBig
	}
	return nil
}
