package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// definitionEdit replaces the old compiled definition of a resource by a new one. nil means that the resource does not
// exist. An edit with old and new exchanged undoes the edit.
type definitionEdit struct{ old, new any }

// reverseEdits returns the edits that undo a list of edits.
func reverseEdits(edits []definitionEdit) []definitionEdit {
	back := make([]definitionEdit, 0, len(edits))
	for _, e := range slices.Backward(edits) {
		back = append(back, definitionEdit{old: e.new, new: e.old})
	}
	return back
}

// translation converts recorded changes of resources to edits of the planner's compiled resources. Units stay
// *declared until compile.
type translation struct {
	keys         []intent.Key
	defs         map[intent.Key]any // definitions after the changes; nil: the resource was deleted
	edits        []definitionEdit
	deletedUnits []model.UnitID
	ends         map[model.NodeID]*intent.ForgottenNode // absent nodes that were removed, with the handlers to notify
	broken       uint64
}

// newTranslation returns a translation of resource changes that has no changes yet.
func newTranslation() *translation { return &translation{defs: map[intent.Key]any{}} }

// translate converts stored changes of resources to edits of the planner's compiled resources. Of several changes of
// one resource the last counts. A resource that does not compile keeps its last valid definition: intent refuses such
// a resource, so another version of Muster has stored it. The caller holds compiling.
func (p *Planner) translate(ctx context.Context, changes []intent.Change) (*translation, error) {
	t := newTranslation()
	skip := func(key intent.Key, err error) {
		p.o.Logger.Error("cannot compile a resource; the server keeps its last valid definition",
			"kind", key.Kind, "namespace", key.Namespace, "name", key.Name, "error", err)
		t.broken++
	}
	for _, c := range changes {
		if !slices.Contains(p.compiler.names, c.Key.Kind) {
			continue
		}
		t.recordRemoval(&c)
		var def any
		if c.After != nil {
			var err error
			if def, err = p.decode(c.Key, c.ID, c.After); err != nil {
				skip(c.Key, err)
				continue
			}
		} else if p.compiler.units[c.Key.Kind] != nil {
			t.deletedUnits = append(t.deletedUnits, model.UnitID(c.ID))
		}
		if c.Was != "" {
			t.set(keyBeforeChange(c), nil)
		}
		t.set(c.Key, def)
	}
	if err := p.recompileChangedRollouts(ctx, t, changes); err != nil {
		return nil, err
	}
	if err := p.compile(t, func(key intent.Key, err error) error { skip(key, err); return nil }); err != nil {
		return nil, err
	}
	p.definitions.hash(t.units())
	rollouts, err := p.stageUnits(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := p.definitions.assignIDs(ctx, t.units(), rollouts); err != nil {
		return nil, err
	}
	t.compare(p.fleet.definitions)
	return t, nil
}

// decode decodes a stored resource, and also compiles a resource used only by the server. Resources other than
// checks are compiled at once; a check stays *declared and is compiled later.
func (p *Planner) decode(key intent.Key, id uint32, data []byte) (any, error) {
	d, err := p.compiler.decode(key, id, data)
	if err != nil {
		return nil, err
	}
	if p.compiler.units[key.Kind] != nil {
		return d, nil
	}
	return p.compiler.define(d)
}

// compile compiles the changed checks, and all checks that use a changed resource. It calls broken with the error of a
// unit; if broken returns nil, the last valid definition of the unit stays.
func (p *Planner) compile(t *translation, broken func(intent.Key, error) error) error {
	present := p.fleet.definitions
	t.addDirectives(present)
	policies := sync.OnceValue(func() map[intent.Key][]*resourceDef { return t.indexPolicies(present) })
	changed := func(key intent.Key) bool { _, ok := t.defs[key]; return ok }
	for _, s := range p.fleet.units {
		u := s.def
		if key := u.source.key; !changed(key) && slices.ContainsFunc(u.uses, changed) {
			t.set(key, u.source)
		}
	}
	lookup := func(key intent.Key) any {
		if def, ok := t.defs[key]; ok {
			return def
		}
		return present[key]
	}
	for _, key := range t.keys {
		d, ok := t.defs[key].(*declaredResource)
		if !ok {
			continue
		}
		u, err := p.compiler.unit(d, lookup, policies)
		if err == nil {
			t.defs[key] = u
			continue
		}
		if err := broken(key, err); err != nil {
			return err
		}
		if t.defs[key] = present[key]; present[key] == nil {
			delete(t.defs, key)
		}
	}
	return nil
}

// recordRemoval records that an ephemeral (self-removing) node was deleted. The record has the handlers that announce
// the removal.
func (t *translation) recordRemoval(c *intent.Change) {
	if end := c.ForgottenNode(); end != nil {
		if t.ends == nil {
			t.ends = map[model.NodeID]*intent.ForgottenNode{}
		}
		t.ends[model.NodeID(c.ID)] = end
	}
}

// keyBeforeChange returns the key of a renamed resource before the change. A key is kind, namespace and name.
func keyBeforeChange(c intent.Change) intent.Key {
	return intent.Key{Kind: c.Key.Kind, Namespace: c.Key.Namespace, Name: c.Was}
}

// set records the new compiled form of a resource under its kind and name
func (t *translation) set(key intent.Key, def any) {
	if _, again := t.defs[key]; !again {
		t.keys = append(t.keys, key)
	}
	t.defs[key] = def
}

// units returns the changed resources that nodes get, such as checks and directives.
func (t *translation) units() (list []*unit) {
	for _, key := range t.keys {
		if u, ok := t.defs[key].(*unit); ok {
			list = append(list, u)
		}
	}
	return list
}

// compare returns the edits that turn the planner's present compiled resources into the changed resources. A
// name that another id has now is a deletion and a creation; an id with another name is an edit.
func (t *translation) compare(present map[intent.Key]any) {
	var removed, added []any
	addedAt := map[identity]int{} // index in added
	for _, key := range t.keys {
		old, new := present[key], t.defs[key]
		switch {
		case old == nil && new == nil:
		case old != nil && new != nil && resourceIdentityOf(old) == resourceIdentityOf(new):
			t.edits = append(t.edits, definitionEdit{old, new})
		default:
			if old != nil {
				removed = append(removed, old)
			}
			if new != nil {
				addedAt[resourceIdentityOf(new)] = len(added)
				added = append(added, new)
			}
		}
	}
	for _, old := range removed {
		e := definitionEdit{old: old}
		if i, renamed := addedAt[resourceIdentityOf(old)]; renamed && resourceIdentityOf(old) != (identity{}) {
			e.new, added[i] = added[i], nil
		}
		t.edits = append(t.edits, e)
	}
	for _, new := range added {
		if new != nil {
			t.edits = append(t.edits, definitionEdit{new: new})
		}
	}
}

// identity has the kind and the permanent id of a node, group or check. A rename does not change the id. Zero
// means that the resource has no id.
type identity struct {
	kind string
	id   uint32
}

// resourceIdentityOf returns the kind and permanent id of a compiled resource. The result is zero if its kind has no
// id.
func resourceIdentityOf(def any) identity {
	switch d := def.(type) {
	case *nodeDef:
		return identity{"Node", uint32(d.ID)}
	case *unit:
		return identity{d.Kind, uint32(d.ID)}
	case *directory.Namespace:
		return identity{"Namespace", uint32(d.ID)}
	}
	return identity{}
}

// replaceDefinitions replaces the planner's compiled resources by the changed compiled resources.
func (t *translation) replaceDefinitions(present map[intent.Key]any) {
	for key, def := range t.defs {
		if def == nil {
			delete(present, key)
		} else {
			present[key] = def
		}
	}
}

// changesSince returns the changes of declared resources after a revision. It stops at the revision that the planner
// has applied.
func (p *Planner) changesSince(ctx context.Context, revision int64) (all []intent.Change, err error) {
	until := p.Revision()
	for revision < until {
		changes, err := p.o.Store.Changes(ctx, revision, catchUpChanges)
		if err != nil {
			return nil, fmt.Errorf("read changes of declared resources from the database: %w", err)
		}
		if len(changes) == 0 {
			break
		}
		for _, c := range changes {
			if c.Revision <= until {
				all = append(all, c)
			}
		}
		revision = changes[len(changes)-1].Revision
	}
	return all, nil
}

// Removal is a deleted check or node, or a check removed from a node. The server must forget its results.
type Removal struct {
	Node model.NodeID // zero: all nodes have lost the unit
	UID  uuid.UUID    // immutable id of a deleted node, which no directory has any more
	Mark wire.ForgetRecord
}

// removals returns the removed checks and nodes. The server must forget the results of deleted checks, of deleted
// nodes, and of checks that a node no longer runs.
func (t *translation) removals(lost []placement, deleted map[model.NodeID]uuid.UUID) (list []Removal) {
	deletedUnits := map[model.UnitID]bool{}
	for _, u := range t.deletedUnits {
		deletedUnits[u] = true
		list = append(list, Removal{Mark: wire.ForgetRecord{Check: u, Deleted: true}})
	}
	for _, n := range slices.Sorted(maps.Keys(deleted)) {
		mark := wire.ForgetRecord{Deleted: true}
		if end := t.ends[n]; end != nil {
			mark.Deregistered, mark.Handlers, mark.Reason = end.Namespace+"/"+end.Node, strings.Join(end.Handlers, ","), end.Reason
			mark.Entity = string(end.Entity)
		}
		list = append(list, Removal{Node: n, UID: deleted[n], Mark: mark})
	}
	for _, at := range lost {
		if _, gone := deleted[at.node]; !gone && !deletedUnits[at.unit] {
			list = append(list, Removal{Node: at.node, Mark: wire.ForgetRecord{Check: at.unit}})
		}
	}
	return list
}

// RemovalsSince returns the checks and nodes that were removed after a given revision of the declared resources. A
// crash after the commit of a change to intent, but before the journal has its removals, loses them. After a restart
// call RemovalsSince with the last revision in the journal (wire.RecordIntent), write the returned list into the
// journal, then record Revision. To write a removal twice does no harm.
func (p *Planner) RemovalsSince(ctx context.Context, revision int64) ([]Removal, error) {
	if revision >= p.Revision() {
		return nil, nil
	}
	changes, err := p.changesSince(ctx, revision)
	if err != nil {
		return nil, err
	}
	p.compiling.Lock()
	defer p.compiling.Unlock()
	// Return the fleet to its former definitions, collect the placements that it gains thereby, and undo the edits.
	back := newTranslation()
	deletedNodes := map[model.NodeID]uuid.UUID{}
	for _, c := range changes {
		if !slices.Contains(p.compiler.names, c.Key.Kind) {
			continue
		}
		switch {
		case c.After != nil:
		case p.compiler.units[c.Key.Kind] != nil:
			back.deletedUnits = append(back.deletedUnits, model.UnitID(c.ID))
		case c.Key.Kind == "Node":
			deletedNodes[model.NodeID(c.ID)] = uuid.Nil
			if was, err := p.decode(c.Key, c.ID, c.Before); err == nil {
				deletedNodes[model.NodeID(c.ID)] = was.(*nodeDef).UID
			}
		}
		back.recordRemoval(&c)
		back.revert(c, p.decode)
	}
	if err := p.compile(back, func(intent.Key, error) error { return nil }); err != nil {
		return nil, err
	}
	p.definitions.hash(back.units())
	back.compare(p.fleet.definitions)
	var list []Removal
	p.tryEdits(back.edits, func(pass *recomputation) { list = back.removals(pass.gained, deletedNodes) })
	return list, nil
}

// revert restores, within the translation, the compiled form that a resource had before a stored change.
// Changes come oldest first. Only the oldest change of a resource counts, because it has the definition before
// all of them. A body that does not compile now did not compile then, so no node ran it.
func (t *translation) revert(c intent.Change, decode func(intent.Key, uint32, []byte) (any, error)) {
	at := c.Key
	if c.Was != "" {
		at = keyBeforeChange(c)
		if _, known := t.defs[c.Key]; !known {
			t.set(c.Key, nil) // the name was free
		}
	}
	if _, known := t.defs[at]; known {
		return
	}
	var def any
	if c.Before != nil {
		var err error
		if def, err = decode(at, c.ID, c.Before); err != nil {
			return
		}
	}
	t.set(at, def)
}

// tryEdits applies edits to the fleet on trial, calls a function with the result, and undoes the edits. Assignments,
// generations and the directory stay. The caller holds compiling.
func (p *Planner) tryEdits(edits []definitionEdit, look func(*recomputation)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.fleet.counts
	pass := p.fleet.apply(edits, nil)
	p.fleet.limitsConditions = false
	look(pass)
	p.fleet.apply(reverseEdits(edits), nil)
	for _, n := range pass.deleted {
		back := p.fleet.nodes[n.def.ID]
		back.content, back.generation = n.content, n.generation
		p.fleet.recordExcess(back, n.excess)
	}
	p.fleet.removeUnusedSets()
	p.fleet.counts = counts // the counts leave out a trial
}
