package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// EntityProperty is the property that holds a node as an entity of Sensu, for tokens. The planner sets it. Users
// cannot set it, because no name of theirs has a dot.
const EntityProperty = ".entity"

// EntitySystem maps the fields of an entity's system in Sensu to facts.
var EntitySystem = map[string]string{
	"hostname": "hostname", "os": "os", "platform": "distribution", "platform_version": "distributionVersion", "arch": "arch",
	"vm_system": "virtualisation", "cloud_provider": "cloud",
}

// RedactedValue is the text that Sensu puts in place of a redacted label or annotation.
const RedactedValue = "REDACTED"

// maxExpansion bounds an expanded text, in bytes.
const maxExpansion = 1 << 20

// sensuTokens is a text parsed as a Sensu template, with tokens such as {{ .labels.x }}. It is a Go template
// that is executed with the node's entity.
type sensuTokens struct {
	source string
	tree   *template.Template
}

// sensuFunctions returns the template functions that Sensu adds to the functions of Go templates
func sensuFunctions() template.FuncMap {
	return template.FuncMap{
		"assetPath": func(asset string) string { return AssetVariable(CleanName(asset)) },
		"default": func(deflt any, value ...any) any {
			if len(value) == 1 && value[0] != nil {
				return value[0]
			}
			return deflt
		},
	}
}

// parseErrorPrefix matches the position that text/template puts before an error.
var parseErrorPrefix = regexp.MustCompile(`^template: [^:]*:\d+(:\d+)?: (executing "[^"]*" at )?`)

// ParseSensuTemplate parses a text with tokens of Sensu. It quotes no values for the shell, as Sensu's agents do not.
// Errors are *TemplateError.
func ParseSensuTemplate(text string) (*Template, error) {
	if !strings.Contains(text, "{{") {
		t := &Template{}
		t.appendLiteral(text)
		return t, nil
	}
	tree, err := template.New("").Funcs(sensuFunctions()).Parse(text)
	if err != nil {
		return nil, &TemplateError{Reason: parseErrorPrefix.ReplaceAllString(err.Error(), "") + ", in " + Shorten(text)}
	}
	return &Template{sensu: &sensuTokens{source: text, tree: tree}, names: []string{EntityProperty}}, nil
}

// expand returns the text with values from the node's Sensu entity in place of the tokens.
func (s *sensuTokens) expand(values PropertyValues) (string, error) {
	raw, conflict, ok := values(EntityProperty)
	if !ok || conflict != "" {
		return "", fmt.Errorf("tokens cannot be expanded: the node's labels, annotations and facts are not known here %s", conflict)
	}
	var entity map[string]any
	if err := json.Unmarshal(raw, &entity); err != nil {
		return "", fmt.Errorf("decode the node's Sensu entity: %w", err)
	}
	for _, field := range [...]string{"labels", "annotations"} {
		values, _ := entity[field].(map[string]any)
		for key, value := range values {
			if value == RedactedValue && s.reads(key) {
				return "", RedactedTokenError(field, key)
			}
		}
	}
	var out boundedBuffer
	err := s.tree.Execute(&out, entity)
	if err == nil && strings.Contains(out.String(), "<no value>") {
		// Only a second run names the missing key: with this option the function default would not work.
		strict, cloneErr := s.tree.Clone()
		if cloneErr != nil {
			return "", cloneErr
		}
		if err = strict.Option("missingkey=error").Execute(&boundedBuffer{}, entity); err == nil {
			err = errors.New("a value is missing")
		}
	}
	if err != nil {
		return "", fmt.Errorf("unmatched token in %s: %s", Shorten(s.source), parseErrorPrefix.ReplaceAllString(err.Error(), ""))
	}
	if strings.IndexByte(out.String(), 0) >= 0 {
		return "", fmt.Errorf("a token in %s has a zero byte, which a command cannot receive", Shorten(s.source))
	}
	return out.String(), nil
}

// RedactedTokenError returns the error about a token that reads a redacted label or annotation.
func RedactedTokenError(field, key string) error {
	return fmt.Errorf("token .%s.%s reads a value that the agent's setting redact hides, so the command cannot run: declare the value as a Secret and name the Secret in the check's secrets (muster explain secret)", field, key)
}

// reads reports whether a token in the text uses the given key, written .labels.KEY or "KEY".
func (s *sensuTokens) reads(key string) bool {
	return slices.ContainsFunc(s.tree.Templates(), func(t *template.Template) bool { return namesKey(t.Root, key) })
}

// namesKey reports whether a part of a parsed Go template contains the given key.
func namesKey(node parse.Node, key string) bool {
	var list []parse.Node
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			list = n.Nodes
		}
	case *parse.ActionNode:
		list = []parse.Node{n.Pipe}
	case *parse.IfNode:
		list = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.RangeNode:
		list = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.WithNode:
		list = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.TemplateNode:
		list = []parse.Node{n.Pipe}
	case *parse.PipeNode:
		if n != nil {
			for _, c := range n.Cmds {
				list = append(list, c.Args...)
			}
		}
	case *parse.ChainNode:
		return slices.Contains(n.Field, key) || namesKey(n.Node, key)
	case *parse.FieldNode:
		return slices.Contains(n.Ident, key)
	case *parse.VariableNode:
		return slices.Contains(n.Ident[1:], key)
	case *parse.StringNode:
		return n.Text == key
	}
	return slices.ContainsFunc(list, func(n parse.Node) bool { return namesKey(n, key) })
}

// boundedBuffer is a byte buffer that refuses more than maxExpansion bytes, to limit expanded templates.
type boundedBuffer struct{ bytes.Buffer }

// Write appends a text, and fails if the buffer would exceed maxExpansion bytes
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxExpansion {
		return 0, fmt.Errorf("the expanded text has more than %d bytes", maxExpansion)
	}
	return b.Buffer.Write(p)
}
