package conversion

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// maxDocument bounds a file, in bytes. It bounds the values of the file, too.
const maxDocument = 64 << 20

// Mapping is one mapping (object) of an imported file, such as an item or a directive. It remembers the names of the
// fields that the import has read.
type Mapping struct {
	*document.Tree
	File string
	read map[string]bool
}

// ReadMappings returns the YAML or JSON documents of a file as mappings. Each must be a mapping.
func ReadMappings(f File) (list []*Mapping, err error) {
	if len(f.Data) > maxDocument {
		return nil, model.Errorf(model.TooLarge, "%s has %d bytes, the limit is %d", f.Name, len(f.Data), maxDocument).WithHint("export fewer parts at a time")
	}
	r := document.NewReader(f.Name)
	r.MaxValues = maxDocument
	trees := r.Documents(f.Data)
	if err := r.Flaws.Err(); err != nil {
		return nil, err
	}
	for _, t := range trees {
		switch {
		case t.IsNull():
		case t.IsMapping():
			list = append(list, NewMapping(f.Name, t))
		default:
			return nil, model.Errorf(model.Invalid, "%s:%d: expected a mapping (object), not %s", f.Name, t.Line(), t.Kind())
		}
	}
	if len(list) == 0 {
		return nil, model.Errorf(model.Invalid, "%s: the file is empty", f.Name)
	}
	return list, nil
}

// NewMapping wraps a YAML or JSON mapping (object) of a file, with all fields marked as unread. The import has
// read no field yet.
func NewMapping(file string, t *document.Tree) *Mapping {
	return &Mapping{Tree: t, File: file, read: map[string]bool{}}
}

// Place returns the place of the mapping in its file as FILE:LINE.
func (m *Mapping) Place() string { return fmt.Sprintf("%s:%d", m.File, m.Line()) }

// Field returns the value of a field, and records that the importer has used the field. An absent or null field
// gives nil.
func (m *Mapping) Field(name string) *document.Tree {
	m.read[name] = true
	if t := m.Get(name); t != nil && !t.IsNull() {
		return t
	}
	return nil
}

// HasField reports whether the mapping has a field, and records that the importer has used the field.
func (m *Mapping) HasField(name string) bool { return m.Field(name) != nil }

// TextOf returns the text, number or boolean in a field as text. A field that is absent, or not a scalar, gives an
// empty text.
func (m *Mapping) TextOf(name string) string {
	if t := m.Field(name); t != nil {
		return t.Text()
	}
	return ""
}

// Child returns the mapping (object) in a field of the mapping, or nil if the field is absent.
func (m *Mapping) Child(name string) *Mapping {
	if t := m.Field(name); t != nil && t.IsMapping() {
		return NewMapping(m.File, t)
	}
	return nil
}

// List returns the elements of a list field that are mappings (objects).
func (m *Mapping) List(name string) (list []*Mapping) {
	if t := m.Field(name); t != nil {
		for _, one := range t.Items() {
			if one.IsMapping() {
				list = append(list, NewMapping(m.File, one))
			}
		}
	}
	return list
}

// Texts returns the texts, numbers and booleans in a list field as texts. A null gives an empty text.
func (m *Mapping) Texts(name string) (list []string) {
	if t := m.Field(name); t != nil {
		for _, one := range t.Items() {
			list = append(list, one.Text())
		}
	}
	return list
}

// IgnoreFields marks fields as read, because Muster has no use for their values. Then no note mentions these
// fields.
func (m *Mapping) IgnoreFields(names ...string) {
	for _, name := range names {
		m.read[name] = true
	}
}

// UnreadFields returns the names of non-empty fields that the importer did not read, to tell the user.
func (m *Mapping) UnreadFields() (names []string) {
	for _, name := range m.Names() {
		if !m.read[name] && !m.Get(name).IsEmpty() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
