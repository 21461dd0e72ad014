package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// EncodeYAML writes resources as documents that DecodeResources reads back, fields in
// the order of their declaration.
func EncodeYAML(resources ...*Resource) ([]byte, error) {
	var out bytes.Buffer
	for i, r := range resources {
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := encodeYAML(&out, r); err != nil {
			return nil, fmt.Errorf("encode %s %q: %w", r.Kind, r.Metadata.Name, err)
		}
	}
	return out.Bytes(), nil
}

func encodeYAML(out *bytes.Buffer, r *Resource) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	rd := &reader{}
	docs := rd.jsonDocuments(body.Bytes())
	if err := rd.flaws.Err(); err != nil || len(docs) != 1 {
		return fmt.Errorf("read own JSON: %w", err)
	}
	dumper, err := yaml.NewDumper(out, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return err
	}
	if err := dumper.Dump(docs[0].yaml()); err != nil {
		return err
	}
	return dumper.Close()
}

// old11 are words that readers of YAML 1.1 take for true or false.
var old11 = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

func (t *tree) yaml() *yaml.Node {
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
			n.Content = append(n.Content, (&tree{kind: text, text: k.name}).yaml(), k.value.yaml())
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}
