package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
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
	// maxNodes bounds what one file expands to: aliases can name aliases.
	maxNodes = 4 << 20
	maxDepth = 100
)

// reader turns text into trees and collects flaws on the way.
type reader struct {
	file  string
	flaws Flaws
	nodes int
}

func (r *reader) flaw(at place, field, hint, format string, args ...any) {
	r.flaws = append(r.flaws, &Flaw{r.file, at.line, at.column, field, fmt.Sprintf(format, args...), hint})
}

var errTooBig = errors.New("too big")

// count bounds depth and size.
func (r *reader) count(at place, depth int) error {
	if r.nodes++; r.nodes > maxNodes {
		r.flaw(at, "", "split the file", "more than %d values, aliases expanded", maxNodes)
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

func (r *reader) yamlDocuments(data []byte) (docs []*tree) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	for err == nil {
		var node yaml.Node
		if err = loader.Load(&node); err != nil {
			break
		}
		if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
			var t *tree
			if t, err = r.fromYAML(node.Content[0], 0); err == nil {
				docs = append(docs, t)
			}
		}
	}
	var wrong *yaml.LoadError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errTooBig):
	case errors.As(err, &wrong):
		at := place{wrong.Mark.Line, wrong.Mark.Column}
		if at.line == 0 {
			at = place{wrong.ContextMark.Line, wrong.ContextMark.Column}
		}
		hint := ""
		if strings.Contains(wrong.Message, "cannot start any token") {
			hint = "indent with spaces, and quote text that begins with a special character"
		}
		r.flaw(at, "", hint, "not YAML: %s", wrong.Message)
	default:
		r.flaw(place{}, "", "", "not YAML: %v", err)
	}
	return docs
}

func (r *reader) fromYAML(n *yaml.Node, depth int) (*tree, error) {
	t := &tree{place: place{n.Line, n.Column}}
	if err := r.count(t.place, depth); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		if n.Alias == nil {
			return t, nil
		}
		aliased, err := r.fromYAML(n.Alias, depth+1)
		if err != nil {
			return nil, err
		}
		aliased.place = t.place
		return aliased, nil
	case yaml.SequenceNode:
		t.kind = list
		for _, item := range n.Content {
			child, err := r.fromYAML(item, depth+1)
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, child)
		}
	case yaml.MappingNode:
		t.kind = mapping
		return t, r.yamlMapping(t, n, depth)
	case yaml.ScalarNode:
		r.scalar(t, n)
	}
	return t, nil
}

func (r *reader) yamlMapping(t *tree, n *yaml.Node, depth int) error {
	var merged []key
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		at := place{name.Line, name.Column}
		value, err := r.fromYAML(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		switch {
		case name.Kind != yaml.ScalarNode:
			r.flaw(at, "", "", "a key must be text")
		case name.ShortTag() == "!!merge":
			sources := []*tree{value}
			if value.kind == list {
				sources = value.items
			}
			for _, s := range sources {
				merged = append(merged, s.keys...)
			}
		case seen[name.Value]:
			r.flaw(at, "", "keep one of them", "%q stands twice in this mapping", name.Value)
		default:
			seen[name.Value] = true
			t.keys = append(t.keys, key{at, name.Value, value})
		}
	}
	for _, k := range merged { // what stands here wins over what is merged in
		if !seen[k.name] {
			seen[k.name] = true
			t.keys = append(t.keys, k)
		}
	}
	return nil
}

func (r *reader) scalar(t *tree, n *yaml.Node) {
	switch tag := n.ShortTag(); tag {
	case "!!null":
	case "!!bool":
		t.kind, t.text = boolean, strings.ToLower(n.Value)
		if t.text != "true" && t.text != "false" {
			t.kind, t.text = text, n.Value
		}
	case "!!int", "!!float":
		t.kind, t.text = number, n.Value
		if json.Valid([]byte(n.Value)) {
			return
		}
		var v any // other spellings: 0x1f, 1_000, +1, .5
		if err := n.Decode(&v); err == nil {
			if plain, err := json.Marshal(v); err == nil {
				t.text = string(plain)
				return
			}
		}
		r.flaw(t.place, "", "", "%s is no number that can be kept", n.Value)
		t.text = "0"
	case "!!str", "!!timestamp":
		t.kind, t.text = text, n.Value
	default:
		r.flaw(t.place, "", "leave the tag out", "the tag %s has no meaning here", tag)
		t.kind, t.text = text, n.Value
	}
}

func (r *reader) jsonDocuments(data []byte) (docs []*tree) {
	j := &jsonReader{reader: r, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	j.dec.UseNumber()
	for {
		t, err := j.value(0)
		if errors.Is(err, io.EOF) && j.atEnd() {
			return docs
		}
		if err != nil {
			if !errors.Is(err, errTooBig) {
				r.flaw(j.at(j.dec.InputOffset()), "", "", "not JSON: %v", err)
			}
			return docs
		}
		docs = append(docs, t)
	}
}

// jsonReader reads JSON token by token, because positions come with tokens only.
type jsonReader struct {
	*reader
	data []byte
	dec  *json.Decoder

	line         int   // at scanned
	scanned, bol int64 // how far lines were counted; where the last one begins
}

// at is the place of an offset; offsets only grow.
func (j *jsonReader) at(offset int64) place {
	offset = min(max(offset, j.scanned), int64(len(j.data)))
	for ; j.scanned < offset; j.scanned++ {
		if j.data[j.scanned] == '\n' {
			j.line++
			j.bol = j.scanned + 1
		}
	}
	return place{j.line, int(offset-j.bol) + 1}
}

func (j *jsonReader) atEnd() bool {
	return len(bytes.TrimSpace(j.data[j.dec.InputOffset():])) == 0
}

// next is the place where the token begins that comes next.
func (j *jsonReader) next() place {
	offset := j.dec.InputOffset()
	for offset < int64(len(j.data)) && strings.IndexByte(" \t\r\n,:", j.data[offset]) >= 0 {
		offset++
	}
	return j.at(offset)
}

func (j *jsonReader) value(depth int) (*tree, error) {
	t := &tree{place: j.next()}
	if err := j.count(t.place, depth); err != nil {
		return nil, err
	}
	token, err := j.dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return t, j.composite(t, v, depth)
	case string:
		t.kind, t.text = text, v
	case json.Number:
		t.kind, t.text = number, v.String()
	case bool:
		t.kind, t.text = boolean, strconv.FormatBool(v)
	}
	return t, nil
}

func (j *jsonReader) composite(t *tree, open json.Delim, depth int) error {
	t.kind = list
	if open == '{' {
		t.kind = mapping
	}
	seen := map[string]bool{}
	for j.dec.More() {
		if t.kind == list {
			item, err := j.value(depth + 1)
			if err != nil {
				return err
			}
			t.items = append(t.items, item)
			continue
		}
		at := j.next()
		name, err := j.dec.Token()
		if err != nil {
			return err
		}
		value, err := j.value(depth + 1)
		if err != nil {
			return err
		}
		if seen[name.(string)] {
			j.flaw(at, "", "keep one of them", "%q stands twice in this object", name)
			continue
		}
		seen[name.(string)] = true
		t.keys = append(t.keys, key{at, name.(string), value})
	}
	_, err := j.dec.Token()
	return err
}
