package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A tree is a document as written, YAML or JSON, before anything is known of its
// meaning: what strict decoding and good messages need.
type tree struct {
	place
	kind  treeKind
	text  string // of a scalar; of a number in JSON's spelling
	keys  []key  // of a mapping, in order
	items []*tree
}

type key struct {
	place
	name  string
	value *tree
}

type treeKind uint8

const (
	null treeKind = iota
	text
	number
	boolean
	list
	mapping
)

func (k treeKind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

func (t *tree) get(name string) *tree {
	for _, k := range t.keys {
		if k.name == name {
			return k.value
		}
	}
	return nil
}

// appendJSON writes the tree as JSON, which the types that read themselves take.
func (t *tree) appendJSON(b []byte) []byte {
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
			b = item.appendJSON(b)
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
			b = k.value.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

const (
	// maxAliased bounds what the aliases of one file expand to: aliases can name
	// aliases. What is written out is bounded by the size of the file.
	maxAliased = 100_000
	maxDepth   = 100
	// maxValues bounds what one file holds: a value takes some hundred bytes here, however
	// short it is written.
	maxValues = 1_000_000
)

// reader turns text into trees and collects flaws on the way.
type reader struct {
	file    string
	flaws   Flaws
	values  int // read so far
	aliases int // around what is read now
	aliased int // values read within aliases
	skipped int // lines before the YAML that is read now
}

// flaw notes what is wrong, unless enough is.
func (r *reader) flaw(at place, field, hint, format string, args ...any) {
	if !r.full() {
		r.flaws = append(r.flaws, &Flaw{File: r.file, Line: at.line, Column: at.column,
			Field: Brief(field), Text: Brief(fmt.Sprintf(format, args...)), Hint: Brief(hint)})
	}
}

// full says that enough is wrong: reading ends.
func (r *reader) full() bool { return len(r.flaws) >= MaxFlaws }

var errTooBig = errors.New("too big")

// count bounds depth and size.
func (r *reader) count(at place, depth int) error {
	if r.aliases > 0 {
		r.aliased++
	}
	if r.values++; r.values > maxValues {
		r.flaw(at, "", "split the file", "more than %d values in one file", maxValues)
		return errTooBig
	}
	if r.full() {
		return errTooBig
	}
	if r.aliased > maxAliased {
		r.flaw(at, "", "write some of them out", "aliases that expand to more than %d values", maxAliased)
		return errTooBig
	}
	if depth > maxDepth {
		r.flaw(at, "", "", "nested more than %d deep", maxDepth)
		return errTooBig
	}
	return nil
}

// documents reads all documents of a file: JSON if it begins like JSON, else YAML.
// An error of syntax ends the file; what came before it is returned.
func (r *reader) documents(data []byte) []*tree {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		flow := &reader{file: r.file}
		if docs := flow.jsonDocuments(data); len(flow.flaws) == 0 || json.Valid(data) {
			r.flaws = append(r.flaws, flow.flaws...)
			return docs
		} // {a: b} is YAML too
		if looksLikeJSON(start) {
			r.flaws = append(r.flaws, flow.flaws...)
			return nil
		}
	}
	return r.yamlDocuments(data)
}

// looksLikeJSON tells {"kind": … from YAML's {kind: ….
func looksLikeJSON(data []byte) bool {
	rest := bytes.TrimLeft(data[1:], " \t\r\n")
	return len(rest) > 0 && rest[0] == '"'
}
