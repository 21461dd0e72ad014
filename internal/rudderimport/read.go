package rudderimport

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// maxDocument bounds a file, in bytes.
const maxDocument = 64 << 20

// readParts returns the mappings of a file in YAML or JSON.
func readParts(file string, data []byte) (list []*part, err error) {
	if len(data) > maxDocument {
		return nil, model.Errorf(model.TooLarge, "%s has %d bytes, the limit is %d", file, len(data), maxDocument)
	}
	r := document.NewReader(file)
	trees := r.Documents(data)
	if err := r.Flaws.Err(); err != nil {
		return nil, err
	}
	for _, t := range trees {
		if t.IsNull() {
			continue
		}
		if !t.IsMapping() {
			return nil, model.Errorf(model.Invalid, "%s:%d: expected a mapping, not %s", file, t.Line(), t.Kind())
		}
		list = append(list, &part{file, t, map[string]bool{}})
	}
	if len(list) == 0 {
		return nil, model.Errorf(model.Invalid, "%s: the file is empty", file)
	}
	return list, nil
}

// part is one mapping of a file, with the fields that were read.
type part struct {
	file string
	tree *document.Tree
	read map[string]bool
}

// where returns the place of the part as FILE:LINE.
func (p *part) where() string { return fmt.Sprintf("%s:%d", p.file, p.tree.Line()) }

// field returns the value of a field and marks the field as read; nil: it is absent or null.
func (p *part) field(name string) *document.Tree {
	p.read[name] = true
	if t := p.tree.Get(name); t != nil && !t.IsNull() {
		return t
	}
	return nil
}

// has reports whether a field is present, and marks it as read.
func (p *part) has(name string) bool { return p.field(name) != nil }

// text returns a scalar field as text; empty: it is absent or no scalar.
func (p *part) text(name string) string {
	if t := p.field(name); t != nil {
		return t.Text()
	}
	return ""
}

// child returns a field that is a mapping; nil: it is absent.
func (p *part) child(name string) *part {
	if t := p.field(name); t != nil && t.IsMapping() {
		return &part{p.file, t, map[string]bool{}}
	}
	return nil
}

// list returns the mappings in a list.
func (p *part) list(name string) (list []*part) {
	if t := p.field(name); t != nil {
		for _, one := range t.Items() {
			if one.IsMapping() {
				list = append(list, &part{p.file, one, map[string]bool{}})
			}
		}
	}
	return list
}

// texts returns the scalars in a list.
func (p *part) texts(name string) (list []string) {
	if t := p.field(name); t != nil {
		for _, one := range t.Items() {
			if text := one.Text(); text != "" {
				list = append(list, text)
			}
		}
	}
	return list
}

// ignore marks fields as read that have no meaning here.
func (p *part) ignore(names ...string) {
	for _, name := range names {
		p.read[name] = true
	}
}

// unread returns the names of the fields that have a value and were not read.
func (p *part) unread() (names []string) {
	for _, name := range p.tree.Names() {
		if t := p.tree.Get(name); !p.read[name] && !t.IsNull() && (t.Text() != "" || t.IsMapping() && len(t.Names()) > 0 || !t.IsMapping() && len(t.Items()) > 0 && t.Items()[0] != t) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
