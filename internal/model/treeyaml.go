package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// yamlDocuments reads one document after the other. After one that is not YAML it goes on
// at the next line of ---.
func (r *reader) yamlDocuments(data []byte) (docs []*tree) {
	for {
		more, line := r.yamlUntil(data)
		docs = append(docs, more...)
		if line == 0 || r.full() {
			return docs
		}
		rest, lines := nextDocument(data, line)
		if rest == nil {
			return docs
		}
		data, r.skipped = rest, r.skipped+lines
	}
}

// nextDocument is what begins with the first --- below a line, and how many lines stand
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

// yamlUntil reads documents up to the end, or up to the line, counted from 1, that is not
// YAML.
func (r *reader) yamlUntil(data []byte) (docs []*tree, line int) {
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
		text, hint := notYAML(wrong.Message, lineOf(data, at.line))
		if began := wrong.ContextMark; began.Line > 0 && strings.Contains(wrong.Message, "unexpected end of stream") {
			at, text, hint = place{began.Line, began.Column}, "not YAML: the quote that begins here has no end", "write the quote that is missing behind it"
		}
		if line = at.line; line == 0 { // it did not come to lines
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

// placeOf is where a node stands in the file.
func (r *reader) placeOf(n *yaml.Node) place { return place{n.Line + r.skipped, n.Column} }

func (r *reader) fromYAML(n *yaml.Node, depth int) (*tree, error) {
	t := &tree{place: r.placeOf(n)}
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

func (r *reader) yamlMapping(t *tree, n *yaml.Node, depth int) error {
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
