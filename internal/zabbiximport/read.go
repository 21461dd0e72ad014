package zabbiximport

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// maxDocument bounds a file, in bytes.
const maxDocument = 64 << 20

// readExport returns the mapping zabbix_export of a file in YAML or JSON.
func readExport(file string, data []byte) (*entity, error) {
	if len(data) > maxDocument {
		return nil, model.Errorf(model.TooLarge, "%s has %d bytes, the limit is %d", file, len(data), maxDocument).WithHint("export fewer templates at a time")
	}
	notExport := func(line int) error {
		return model.Errorf(model.Invalid, "%s:%d: not an export of Zabbix: zabbix_export is missing", file, line).
			WithHint("export the templates as YAML: Data collection → Templates → Export; XML is not supported")
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	switch err := loader.Load(&document); {
	case err == io.EOF:
		return nil, notExport(1)
	case err != nil:
		return nil, model.Errorf(model.Invalid, "%s: %v", file, err).WithHint("export the templates as YAML; XML is not supported")
	case len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode:
		return nil, notExport(1)
	}
	top := &entity{file: file, node: document.Content[0], read: map[string]bool{}}
	export := top.child("zabbix_export")
	if export == nil {
		return nil, notExport(top.node.Line)
	}
	return export, nil
}

// entity is one mapping of an export, such as an item, and the names of the fields that the importer has read.
type entity struct {
	file string
	node *yaml.Node
	read map[string]bool
}

// field returns the value of a field, or nil for an absent one, and marks the field as read.
func (e *entity) field(name string) *yaml.Node {
	e.read[name] = true
	for i := 0; i+1 < len(e.node.Content); i += 2 {
		if e.node.Content[i].Value == name {
			return resolveAlias(e.node.Content[i+1])
		}
	}
	return nil
}

// resolveAlias returns the node to which a YAML alias refers, or the node itself if it is no alias.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// has reports whether a field is present and not empty.
func (e *entity) has(name string) bool {
	n := e.field(name)
	return n != nil && (n.Value != "" || len(n.Content) > 0)
}

// text returns a scalar field as text, or an empty text if it is absent.
func (e *entity) text(name string) string {
	if n := e.field(name); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return n.Value
	}
	return ""
}

// word returns a scalar field in capital letters, or a default if it is absent.
func (e *entity) word(name, deflt string) string {
	if text := e.text(name); text != "" {
		return strings.ToUpper(text)
	}
	return deflt
}

// child returns a field that is a mapping, or nil if it is absent.
func (e *entity) child(name string) *entity {
	if n := e.field(name); n != nil && n.Kind == yaml.MappingNode {
		return &entity{e.file, n, map[string]bool{}}
	}
	return nil
}

// list returns the mappings in a list.
func (e *entity) list(name string) (list []*entity) {
	n := e.field(name)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, one := range n.Content {
		if one = resolveAlias(one); one.Kind == yaml.MappingNode {
			list = append(list, &entity{e.file, one, map[string]bool{}})
		}
	}
	return list
}

// texts returns the scalars in a list.
func (e *entity) texts(name string) (list []string) {
	n := e.field(name)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, one := range n.Content {
		if one = resolveAlias(one); one.Tag == "!!null" {
			list = append(list, "")
		} else {
			list = append(list, one.Value)
		}
	}
	return list
}

// ignore marks fields as read that have no meaning in Muster, so that no note mentions them.
func (e *entity) ignore(names ...string) {
	for _, name := range names {
		e.read[name] = true
	}
}

// unread returns the names of the fields that have a value and that the importer has not read.
func (e *entity) unread() (names []string) {
	for i := 0; i+1 < len(e.node.Content); i += 2 {
		value := e.node.Content[i+1]
		if name := e.node.Content[i].Value; !e.read[name] && (value.Value != "" || len(value.Content) > 0) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
