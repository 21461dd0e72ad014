package plan

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// translation is a list of recorded changes as edits.
type translation struct {
	keys          []intent.Key
	defs          map[intent.Key]any // after; nil: deleted
	edits         []edit
	deletedChecks []model.CheckID
	left          map[model.NodeID]*intent.ForgottenNode
	broken        uint64
}

// translate decodes changes and numbers new chunks. Of several changes of one key the
// last counts. The caller holds compiling.
func (p *Planner) translate(ctx context.Context, changes []intent.Change) (*translation, error) {
	t := &translation{defs: map[intent.Key]any{}}
	for _, c := range changes {
		if !slices.Contains(kinds[:], c.Key.Kind) {
			continue
		}
		t.leaves(&c)
		var def any
		if c.After != nil {
			var err error
			if def, err = p.decode(c.Key, c.ID, c.After); err != nil {
				// Service refuses such a thing: it comes from another version. What was
				// there before stays, and the fleet goes on.
				p.o.Logger.Error("cannot compile a resource; its last good definition stays",
					"kind", c.Key.Kind, "namespace", c.Key.Namespace, "name", c.Key.Name, "error", err)
				t.broken++
				continue
			}
		} else if c.Key.Kind == "Check" {
			t.deletedChecks = append(t.deletedChecks, model.CheckID(c.ID))
		}
		if c.Was != "" {
			t.set(before(c), nil)
		}
		t.set(c.Key, def)
	}
	if err := p.number(ctx, p.o.Store, t); err != nil {
		return nil, err
	}
	t.compare(p.defs)
	return t, nil
}

// leaves notes a node whose end somebody is to hear of.
func (t *translation) leaves(c *intent.Change) {
	if left := c.ForgottenNode(); left != nil {
		if t.left == nil {
			t.left = map[model.NodeID]*intent.ForgottenNode{}
		}
		t.left[model.NodeID(c.ID)] = left
	}
}

// before is the key that a change of a name found its row at.
func before(c intent.Change) intent.Key {
	return intent.Key{Kind: c.Key.Kind, Namespace: c.Key.Namespace, Name: c.Was}
}

func (t *translation) set(key intent.Key, def any) {
	if _, again := t.defs[key]; !again {
		t.keys = append(t.keys, key)
	}
	t.defs[key] = def
}

// checks are the new definitions of checks.
func (t *translation) checks() (list []*checkDef) {
	for _, key := range t.keys {
		if d, ok := t.defs[key].(*checkDef); ok {
			list = append(list, d)
		}
	}
	return list
}

// compare makes the edits that lead from the present definitions to the new ones. A
// name that passed to another id is a deletion and a creation; an id that passed to
// another name is an edit.
func (t *translation) compare(present map[intent.Key]any) {
	var gone, come []any
	coming := map[identity]int{} // by who they are: index in come
	for _, key := range t.keys {
		old, new := present[key], t.defs[key]
		switch {
		case old == nil && new == nil:
		case old != nil && new != nil && sameID(old, new):
			t.edits = append(t.edits, edit{old, new})
		default:
			if old != nil {
				gone = append(gone, old)
			}
			if new != nil {
				coming[identityOf(new)] = len(come)
				come = append(come, new)
			}
		}
	}
	for _, old := range gone {
		e := edit{old: old}
		if i, renamed := coming[identityOf(old)]; renamed && identityOf(old) != (identity{}) {
			e.new, come[i] = come[i], nil
		}
		t.edits = append(t.edits, e)
	}
	for _, new := range come {
		if new != nil {
			t.edits = append(t.edits, edit{new: new})
		}
	}
}

// identity is the number of a node or check, which a new name does not change; zero
// for what is only a name.
type identity struct {
	kind string
	id   uint32
}

func identityOf(def any) identity {
	switch d := def.(type) {
	case *nodeDef:
		return identity{"Node", uint32(d.id)}
	case *checkDef:
		return identity{"Check", uint32(d.id)}
	}
	return identity{}
}

func sameID(a, b any) bool {
	switch a := a.(type) {
	case *nodeDef:
		return a.id == b.(*nodeDef).id
	case *checkDef:
		return a.id == b.(*checkDef).id
	case *namespaceDef:
		return a.id == b.(*namespaceDef).id
	}
	return true
}

// keep makes the new definitions the present ones.
func (t *translation) keep(present map[intent.Key]any) {
	for key, def := range t.defs {
		if def == nil {
			delete(present, key)
		} else {
			present[key] = def
		}
	}
}

// namespaceID finds the id of a namespace, those of this translation included.
func (p *Planner) namespaceID(t *translation, name string) model.NamespaceID {
	key := intent.Key{Kind: "Namespace", Name: name}
	for _, defs := range []map[intent.Key]any{t.defs, p.defs} {
		if d, ok := defs[key].(*namespaceDef); ok {
			return d.id
		}
	}
	return 0
}
