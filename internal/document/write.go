package document

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// YAML writes one JSON document as YAML, fields in their order; Documents parses it back to the
// same values. Commands show stored JSON this way: get -o yaml, edit, differences.
func YAML(document []byte) ([]byte, error) {
	r := &Reader{}
	docs := r.Documents(document)
	if err := r.Flaws.Err(); err != nil || len(docs) != 1 {
		return nil, fmt.Errorf("turn JSON into YAML: %w", cmp.Or(err, errNotOne))
	}
	var out bytes.Buffer
	dumper, err := yaml.NewDumper(&out, yaml.WithIndent(2), yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
	if err == nil {
		err = dumper.Dump(docs[0].yaml())
	}
	if err == nil {
		err = dumper.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out.Bytes(), nil
}

var errNotOne = errors.New("not one document")

// old11 lists words that parsers of YAML 1.1 read as true or false.
var old11 = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

func (t *Tree) yaml() *yaml.Node {
	scalar := func(tag string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: t.text} }
	switch t.kind {
	case text:
		n := scalar("!!str")
		if old11[strings.ToLower(t.text)] {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	case number:
		if strings.ContainsAny(t.text, ".eE") {
			return scalar("!!float")
		}
		return scalar("!!int")
	case boolean:
		return scalar("!!bool")
	case list:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if len(t.items) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, item := range t.items {
			n.Content = append(n.Content, item.yaml())
		}
		return n
	case mapping:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if len(t.keys) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, k := range t.keys {
			n.Content = append(n.Content, (&Tree{kind: text, text: k.name}).yaml(), k.value.yaml())
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}
