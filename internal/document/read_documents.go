package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Documents parses all documents of a YAML or JSON file. After a document with a syntax error it continues at the
// next line "---". A JSON file may hold several objects, one behind the other; a syntax error ends it.
func (r *Reader) Documents(data []byte) []*Tree {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if looksLikeJSON(data) {
		return r.parseJSONDocuments(data)
	}
	return r.parseYAMLDocuments(data)
}

// looksLikeJSON reports whether a file that begins with a brace is JSON, not YAML. JSON begins with {"kind": …, and
// such YAML with {kind: … or {{.
func looksLikeJSON(data []byte) bool {
	rest, object := bytes.CutPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	return object && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`))
}

// parseJSONDocuments splits a file into JSON objects, and parses each object. Text that is YAML but not JSON, such as
// {"a": b}, is parsed as YAML.
func (r *Reader) parseJSONDocuments(data []byte) (docs []*Tree) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var object json.RawMessage
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) || r.Full() {
			return docs
		}
		if err != nil {
			return append(docs, r.retryAsYAML(data, decoder.InputOffset(), err)...)
		}
		start := placeAt(data, int(decoder.InputOffset())-len(object))
		if most := cmp.Or(r.MaxValues, maxObject); bytes.Count(object, []byte(",")) > most {
			r.recordFlaw(place{start.line, 1}, "", "split it", "more than %d values in one object", most)
			return docs
		}
		r.skipped = start.line - 1
		found, _ := r.parseYAMLUntilError(append(bytes.Repeat([]byte(" "), start.column-1), escapeJSONForYAML(object)...))
		docs = append(docs, found...)
	}
}

// retryAsYAML parses the rest of a file as YAML after a JSON syntax error, because YAML allows more. If YAML
// fails too, it records the JSON error.
func (r *Reader) retryAsYAML(data []byte, offset int64, err error) []*Tree {
	rest := &Reader{file: r.file, skipped: bytes.Count(data[:offset], []byte("\n"))}
	if docs := rest.parseYAMLDocuments(data[offset:]); len(rest.Flaws) == 0 {
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
	r.recordFlaw(placeAt(data, int(offset)), "", hint, "not JSON: %v", err)
	return nil
}

// unlikeYAML matches parts of JSON strings that YAML reads in another way: surrogate pairs, and raw line separators.
var unlikeYAML = regexp.MustCompile(`\\(?:u[dD][89a-bA-B][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)|[\x{85}\x{2028}\x{2029}]`)

// escapeJSONForYAML rewrites JSON escapes and characters that YAML reads differently, without a change of the
// values.
func escapeJSONForYAML(data []byte) []byte {
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

// parseYAMLDocuments parses all documents of a YAML file and continues after a syntax error.
func (r *Reader) parseYAMLDocuments(data []byte) (docs []*Tree) {
	for {
		more, line := r.parseYAMLUntilError(data)
		docs = append(docs, more...)
		if line == 0 || r.Full() {
			return docs
		}
		rest, lines := textFromNextDocument(data, line)
		if rest == nil {
			return docs
		}
		data, r.skipped = rest, r.skipped+lines
	}
}

// textFromNextDocument returns the rest of a file from the next separator line ("---") of YAML documents. It
// also returns the number of lines before this text; the text is nil if no document follows.
func textFromNextDocument(data []byte, line int) (rest []byte, lines int) {
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

// parseYAMLUntilError parses YAML documents until the end or the first syntax error. It returns the line number of the
// error, from 1.
func (r *Reader) parseYAMLUntilError(data []byte) (docs []*Tree, line int) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	for err == nil {
		var node yaml.Node
		if err = loader.Load(&node); err != nil {
			break
		}
		if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
			var t *Tree
			if t, err = r.treeFromYAML(node.Content[0], 0); err == nil {
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
		text, hint := explainYAMLError(wrong.Message, lineOfText(data, at.line))
		if began := wrong.ContextMark; began.Line > 0 && strings.Contains(wrong.Message, "unexpected end of stream") {
			at, text, hint = place{began.Line, began.Column}, "not YAML: the quote that begins here has no end", "add the missing quote"
		}
		if line = at.line; line == 0 { // the library reports no line
			if at, hint = findBinaryByte(data); at.line > 0 {
				text = "not text: " + wrong.Message
			}
		}
		if at.line > 0 {
			at.line += r.skipped
		}
		r.recordFlaw(at, "", hint, "%s", text)
	default:
		r.recordFlaw(place{}, "", "", "not YAML: %v", err)
	}
	return docs, line
}

// placeOf returns the line and column of a YAML node, counted from the start of the file.
func (r *Reader) placeOf(n *yaml.Node) place { return place{n.Line + r.skipped, n.Column} }

// treeFromYAML converts a node of the YAML library to a Tree.
func (r *Reader) treeFromYAML(n *yaml.Node, depth int) (*Tree, error) {
	t := &Tree{place: r.placeOf(n)}
	if err := r.checkSize(t.place, depth); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		if n.Alias == nil {
			return t, nil
		}
		r.aliases++
		aliased, err := r.treeFromYAML(n.Alias, depth+1)
		r.aliases--
		if err != nil {
			return nil, err
		}
		aliased.place = t.place
		return aliased, nil
	case yaml.SequenceNode:
		t.kind = list
		for _, item := range n.Content {
			child, err := r.treeFromYAML(item, depth+1)
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, child)
		}
	case yaml.MappingNode:
		t.kind = mapping
		return t, r.readYAMLMapping(t, n, depth)
	case yaml.ScalarNode:
		r.readYAMLScalar(t, n)
	}
	return t, nil
}

// readYAMLMapping converts a YAML mapping to a tree with its keys, values and places. A repeated key is an
// error.
func (r *Reader) readYAMLMapping(t *Tree, n *yaml.Node, depth int) error {
	var merged []mappingKey
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		at := r.placeOf(name)
		value, err := r.treeFromYAML(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		switch {
		case name.Kind != yaml.ScalarNode:
			r.recordFlaw(at, "", "", "a key must be text")
		case name.ShortTag() == "!!merge":
			sources := []*Tree{value}
			if value.kind == list {
				sources = value.items
			}
			for _, s := range sources {
				merged = append(merged, s.keys...)
			}
		case seen[name.Value]:
			r.recordFlaw(at, "", "keep one of them", "%q occurs twice in this mapping", name.Value)
		default:
			seen[name.Value] = true
			t.keys = append(t.keys, mappingKey{at, name.Value, value})
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

// readYAMLScalar converts a YAML scalar (text, number, boolean or null) to a tree with its type and text.
func (r *Reader) readYAMLScalar(t *Tree, n *yaml.Node) {
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
		r.recordFlaw(t.place, "", "", "the number %s is out of range", n.Value)
		t.text = "0"
	case "!!str", "!!timestamp":
		t.kind, t.text = text, n.Value
	default:
		r.recordFlaw(t.place, "", "leave the tag out", "the tag %s is not supported", tag)
		t.kind, t.text = text, n.Value
	}
}
