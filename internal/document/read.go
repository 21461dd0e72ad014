package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Documents parses all documents of a file, YAML or JSON: JSON is a subset of YAML. After a
// document with a syntax error it continues at the next line "---". A JSON file may hold
// several objects, one behind the other; a syntax error ends it.
func (r *Reader) Documents(data []byte) []*Tree {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if looksLikeJSON(data) {
		return r.jsonDocuments(data)
	}
	return r.yamlDocuments(data)
}

// looksLikeJSON tells {"kind": … from YAML's {kind: … and from {}.
func looksLikeJSON(data []byte) bool {
	rest, object := bytes.CutPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	return object && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`))
}

// jsonDocuments splits a file into JSON objects and parses each as YAML. Text that is YAML
// but not JSON, such as {"a": b}, is parsed as YAML.
func (r *Reader) jsonDocuments(data []byte) (docs []*Tree) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var object json.RawMessage
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) || r.Full() {
			return docs
		}
		if err != nil {
			return append(docs, r.notJSON(data, decoder.InputOffset(), err)...)
		}
		start := placeAt(data, int(decoder.InputOffset())-len(object))
		if bytes.Count(object, []byte(",")) > maxObject {
			r.flaw(place{start.line, 1}, "", "split it", "more than %d values in one object", maxObject)
			return docs
		}
		r.skipped = start.line - 1
		found, _ := r.yamlUntil(append(bytes.Repeat([]byte(" "), start.column-1), yamlOfJSON(object)...))
		docs = append(docs, found...)
	}
}

// notJSON parses the rest of a file as YAML if it is, or records why it is not JSON.
func (r *Reader) notJSON(data []byte, offset int64, err error) []*Tree {
	rest := &Reader{file: r.file, skipped: bytes.Count(data[:offset], []byte("\n"))}
	if docs := rest.yamlDocuments(data[offset:]); len(rest.Flaws) == 0 {
		return docs
	}
	hint := ""
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset - 1
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		offset, hint = int64(len(data)), "is the file complete?"
		err = errors.New("the file ends within an object, a list or a text")
	}
	r.flaw(placeAt(data, int(offset)), "", hint, "not JSON: %v", err)
	return nil
}

// unlikeYAML matches parts of JSON strings that YAML reads in another way: surrogate pairs, and raw line separators.
var unlikeYAML = regexp.MustCompile(`\\(?:u[dD][89a-bA-B][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)|[\x{85}\x{2028}\x{2029}]`)

// yamlOfJSON writes a JSON text so that YAML reads the same of it.
func yamlOfJSON(data []byte) []byte {
	return unlikeYAML.ReplaceAllFunc(data, func(found []byte) []byte {
		switch {
		case len(found) >= 6: // a surrogate pair, or one alone, which stands for U+FFFD
			var char string
			if json.Unmarshal(append(append([]byte(`"`), found...), '"'), &char) == nil {
				return []byte(char)
			}
		case found[0] != '\\':
			char, _ := utf8.DecodeRune(found)
			return fmt.Appendf(nil, `\u%04x`, char)
		}
		return found
	})
}

func (r *Reader) yamlDocuments(data []byte) (docs []*Tree) {
	for {
		more, line := r.yamlUntil(data)
		docs = append(docs, more...)
		if line == 0 || r.Full() {
			return docs
		}
		rest, lines := nextDocument(data, line)
		if rest == nil {
			return docs
		}
		data, r.skipped = rest, r.skipped+lines
	}
}

// nextDocument returns the text from the first "---" below a line on, and the number of lines
// above it; nil: there is none.
func nextDocument(data []byte, line int) (rest []byte, lines int) {
	for len(data) > 0 {
		if lines >= line && bytes.HasPrefix(data, []byte("---")) {
			return data, lines
		}
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			break
		}
		data, lines = data[end+1:], lines+1
	}
	return nil, 0
}

// yamlUntil parses documents to the end of the file, or to the first syntax error, whose
// line it returns, counted from 1.
func (r *Reader) yamlUntil(data []byte) (docs []*Tree, line int) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	for err == nil {
		var node yaml.Node
		if err = loader.Load(&node); err != nil {
			break
		}
		if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
			var t *Tree
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
		text, hint := notYAML(wrong.Message, lineOf(data, at.line))
		if began := wrong.ContextMark; began.Line > 0 && strings.Contains(wrong.Message, "unexpected end of stream") {
			at, text, hint = place{began.Line, began.Column}, "not YAML: the quote that begins here has no end", "add the missing quote"
		}
		if line = at.line; line == 0 { // the library reports no line
			if at, hint = notText(data); at.line > 0 {
				text = "not text: " + wrong.Message
			}
		}
		if at.line > 0 {
			at.line += r.skipped
		}
		r.flaw(at, "", hint, "%s", text)
	default:
		r.flaw(place{}, "", "", "not YAML: %v", err)
	}
	return docs, line
}

// placeOf returns the place of a node in the file.
func (r *Reader) placeOf(n *yaml.Node) place { return place{n.Line + r.skipped, n.Column} }

func (r *Reader) fromYAML(n *yaml.Node, depth int) (*Tree, error) {
	t := &Tree{place: r.placeOf(n)}
	if err := r.count(t.place, depth); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		if n.Alias == nil {
			return t, nil
		}
		r.aliases++
		aliased, err := r.fromYAML(n.Alias, depth+1)
		r.aliases--
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

func (r *Reader) yamlMapping(t *Tree, n *yaml.Node, depth int) error {
	var merged []key
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		at := r.placeOf(name)
		value, err := r.fromYAML(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		switch {
		case name.Kind != yaml.ScalarNode:
			r.flaw(at, "", "", "a key must be text")
		case name.ShortTag() == "!!merge":
			sources := []*Tree{value}
			if value.kind == list {
				sources = value.items
			}
			for _, s := range sources {
				merged = append(merged, s.keys...)
			}
		case seen[name.Value]:
			r.flaw(at, "", "keep one of them", "%q occurs twice in this mapping", name.Value)
		default:
			seen[name.Value] = true
			t.keys = append(t.keys, key{at, name.Value, value})
		}
	}
	for _, k := range merged { // keys of the mapping win over merged ones
		if !seen[k.name] {
			seen[k.name] = true
			t.keys = append(t.keys, k)
		}
	}
	return nil
}

func (r *Reader) scalar(t *Tree, n *yaml.Node) {
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
		r.flaw(t.place, "", "", "the number %s is out of range", n.Value)
		t.text = "0"
	case "!!str", "!!timestamp":
		t.kind, t.text = text, n.Value
	default:
		r.flaw(t.place, "", "leave the tag out", "the tag %s is not supported", tag)
		t.kind, t.text = text, n.Value
	}
}
