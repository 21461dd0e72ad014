package sensuimport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// object is one Sensu object to import, with its position in the file.
type object struct {
	importer  *importer
	file      string
	line      int
	kind      string // CheckConfig
	name      string
	namespace string
	meta      *objectFields
	spec      *objectFields
	repeated  []string // "LINE: KEY" of keys that a later one of the same name replaces
}

// maxDocument bounds a file, in bytes.
const maxDocument = 64 << 20

// readObjects reads the Sensu objects of an imported YAML or JSON file. The file has YAML documents,
// concatenated JSON objects (a wrapped-json dump), or a list of either.
func readObjects(file string, data []byte) ([]object, error) {
	if len(data) > maxDocument {
		return nil, model.Errorf(model.TooLarge, "the file %s has %d bytes, but the limit is %d", file, len(data), maxDocument).WithHint("dump one type, or one namespace, at a time")
	}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return readJSON(file, data)
	}
	return readYAML(file, data)
}

// readJSON reads the objects of a JSON file, each with its line.
func readJSON(file string, data []byte) (list []object, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		begin := dec.InputOffset()
		begin += int64(len(data[begin:]) - len(bytes.TrimLeft(data[begin:], " \t\r\n")))
		var value any
		if err := dec.Decode(&value); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, model.Errorf(model.Invalid, "%s: in the document at line %d: %v", file, lineOf(data, begin), err)
		}
		if list, err = appendObjects(list, file, lineOf(data, begin), value); err != nil {
			return nil, err
		}
	}
}

// lineOf returns the line number of a byte offset in an imported file.
func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

// readYAML reads the objects of a YAML file, each with its line.
func readYAML(file string, data []byte) (list []object, err error) {
	dec, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		var node yaml.Node
		if err := dec.Load(&node); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, model.Errorf(model.Invalid, "%s: %v", file, err)
		}
		if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
			continue
		}
		top := node.Content[0]
		items := []*yaml.Node{top}
		if top.Kind == yaml.SequenceNode {
			items = top.Content
		}
		for _, item := range items {
			repeated := removeRepeatedKeys(item)
			var value any
			if err := item.Decode(&value); err != nil {
				return nil, model.Errorf(model.Invalid, "%s:%d: %v", file, item.Line, err)
			}
			if list, err = appendObjects(list, file, item.Line, value); err != nil {
				return nil, err
			}
			if len(list) > 0 {
				list[len(list)-1].repeated = repeated
			}
		}
	}
}

// removeRepeatedKeys removes repeated keys of YAML mappings, and returns the removed keys with their lines. The form
// is LINE: KEY; the last key of a name stays, as with sensuctl.
func removeRepeatedKeys(n *yaml.Node) (removed []string) {
	if n.Kind == yaml.MappingNode {
		seen := map[string]bool{}
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			switch key := n.Content[i]; {
			case key.Kind != yaml.ScalarNode || key.Value == "<<":
			case seen[key.Value]:
				removed = append(removed, fmt.Sprintf("%d: %s", key.Line, key.Value))
				n.Content = slices.Delete(n.Content, i, i+2)
			default:
				seen[key.Value] = true
			}
		}
	}
	for _, inner := range n.Content {
		removed = append(removed, removeRepeatedKeys(inner)...)
	}
	return removed
}

// appendObjects appends the Sensu objects of one YAML or JSON document. The document may be a list of objects.
func appendObjects(list []object, file string, line int, value any) (_ []object, err error) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			if list, err = appendObjects(list, file, line, one); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		one, err := readWrapped(file, line, v)
		return append(list, one), err
	}
	return nil, model.Errorf(model.Invalid, "%s:%d: not a Sensu resource", file, line).WithHint("sensuctl dump all --all-namespaces --format yaml --file sensu.yaml")
}

// readWrapped reads a Sensu object in the form {type, api_version, metadata, spec}. The metadata may be inside
// spec.
func readWrapped(file string, line int, v map[string]any) (object, error) {
	top := newFields("", v)
	o := object{file: file, line: line, kind: top.text("type")}
	if o.kind == "" {
		return o, model.Errorf(model.Invalid, "%s:%d: no type: not a resource in the format of sensuctl dump", file, line).
			WithHint("sensuctl dump all --all-namespaces --format yaml --file sensu.yaml; lists of the API (sensuctl check list --format json) do not name their type: use --format wrapped-json")
	}
	o.spec = top.object("spec")
	if o.meta = top.object("metadata"); len(o.meta.values) == 0 {
		o.meta = o.spec.object("metadata")
	} else {
		o.spec.ignore("metadata")
	}
	o.name, o.namespace = o.meta.text("name"), o.meta.text("namespace")
	o.meta.ignore("created_by")
	return o, nil
}

// title returns the Sensu type, namespace and name of the object, for notes.
func (o *object) title() string {
	return strings.TrimSuffix(o.kind+" "+strings.TrimPrefix(o.namespace+"/"+o.name, "/"), " ")
}

// objectFields holds the fields of a Sensu object, and remembers which fields the import has read.
type objectFields struct {
	path   string
	values map[string]any
	read   map[string]bool
	inner  []*objectFields
}

// newFields returns the fields of a JSON object, none of which the import has read yet. No field is read yet.
func newFields(path string, v map[string]any) *objectFields {
	return &objectFields{path: path, values: v, read: map[string]bool{}}
}

// value returns the value of a field, and records that the import has read the field. A missing field gives nil.
func (f *objectFields) value(name string) any {
	f.read[name] = true
	return f.values[name]
}

// valueOf returns the value of a field if the value has the type T, else the zero value. It returns the zero value if
// the field is absent or has another type. A value of another type counts as unread, and a note reports the field.
func valueOf[T any](f *objectFields, name string) T {
	v, ok := f.value(name).(T)
	if !ok && f.values[name] != nil {
		delete(f.read, name)
	}
	return v
}

// ignore marks the given fields as read, so that no note reports the fields as lost. Then no note reports these
// fields.
func (f *objectFields) ignore(names ...string) {
	for _, name := range names {
		f.read[name] = true
	}
}

// reference returns the name in a field that refers to another object ({name, type, api_version}). The form is {name,
// type, api_version}.
func (f *objectFields) reference() string {
	f.ignore("type", "api_version")
	return f.text("name")
}

// appendNew appends a text to a list, unless the list contains the text.
func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// text returns the text value of a field.
func (f *objectFields) text(name string) string { return valueOf[string](f, name) }

// boolean returns the boolean value of a field.
func (f *objectFields) boolean(name string) bool { return valueOf[bool](f, name) }

// integer returns the integer value of a field. A value that is no integer gives zero.
func (f *objectFields) integer(name string) int {
	v, ok := numberOf(f.value(name))
	if !ok && f.values[name] != nil || v != math.Trunc(v) || math.Abs(v) > 1<<40 {
		delete(f.read, name)
		return 0
	}
	return int(v)
}

// numberOf returns a finite number from a JSON number or a numeric text.
func numberOf(v any) (n float64, ok bool) {
	switch v := v.(type) {
	case int, int64, uint64, float64:
		n, ok = reflect.ValueOf(v).Convert(reflect.TypeFor[float64]()).Float(), true
	case string:
		parsed, err := strconv.ParseFloat(v, 64)
		n, ok = parsed, err == nil
	}
	return n, ok && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// texts returns the list of texts in a field.
func (f *objectFields) texts(name string) (list []string) {
	for _, item := range valueOf[[]any](f, name) {
		if s, ok := item.(string); ok {
			list = append(list, s)
		} else {
			delete(f.read, name)
		}
	}
	return list
}

// labels returns the string members of an object field, such as labels.
func (f *objectFields) labels(name string) map[string]string {
	out := map[string]string{}
	for k, v := range valueOf[map[string]any](f, name) {
		if v != nil {
			out[k] = fmt.Sprint(v)
		}
	}
	return nonEmpty(out)
}

// object returns the fields of a nested object by the name of its field. If the field is absent, it returns no fields.
func (f *objectFields) object(name string) *objectFields {
	return f.addNested(name, valueOf[map[string]any](f, name))
}

// objects returns the fields of each object in a list.
func (f *objectFields) objects(name string) (list []*objectFields) {
	for i, item := range valueOf[[]any](f, name) {
		if v, ok := item.(map[string]any); ok {
			list = append(list, f.addNested(fmt.Sprintf("%s[%d]", name, i), v))
		} else {
			delete(f.read, name)
		}
	}
	return list
}

// addNested wraps a nested object, and counts its unread fields as unread fields of the outer object. Its
// unread fields are reported together with those of the outer object.
func (f *objectFields) addNested(name string, v map[string]any) *objectFields {
	inner := newFields(strings.TrimPrefix(f.path+"."+name, "."), v)
	f.inner = append(f.inner, inner)
	return inner
}

// unreadFields returns the fields of a Sensu object that have a value but were not read.
func (f *objectFields) unreadFields() (list []string) {
	for name, v := range f.values {
		if !f.read[name] && !isDefaultValue(v) {
			list = append(list, strings.TrimPrefix(f.path+"."+name, ".")+": "+shortJSON(v))
		}
	}
	for _, inner := range f.inner {
		list = append(list, inner.unreadFields()...)
	}
	slices.Sort(list)
	return list
}

// isDefaultValue reports whether a value is empty, that is, the default of its type.
func isDefaultValue(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, one := range v {
			if !isDefaultValue(one) {
				return false
			}
		}
		return true
	}
	return reflect.ValueOf(v).IsZero()
}

// shortJSON returns a value as short JSON for a note.
func shortJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if r := []rune(string(data)); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return string(data)
}
