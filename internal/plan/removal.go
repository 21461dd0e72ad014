package plan

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Removal is a unit that a node no longer has, or a unit or node that was deleted: the server must forget
// its results.
type Removal struct {
	Node model.NodeID // zero: all nodes
	UID  uuid.UUID    // of a deleted node, which no directory knows any more
	Mark wire.ForgetMark
}

// removals turns lost placements into marks. A deleted unit is one mark for all nodes, a deleted node one
// mark for all its units.
func (t *translation) removals(lost []placement, deleted map[model.NodeID]uuid.UUID) (list []Removal) {
	deletedUnits := map[model.UnitID]bool{}
	for _, u := range t.deletedUnits {
		deletedUnits[u] = true
		list = append(list, Removal{Mark: wire.ForgetMark{Check: u, Deleted: true}})
	}
	for _, n := range slices.Sorted(maps.Keys(deleted)) {
		mark := wire.ForgetMark{Deleted: true}
		if end := t.ends[n]; end != nil {
			mark.Deregistered, mark.Handlers, mark.Reason = end.Namespace+"/"+end.Node, strings.Join(end.Tell, ","), end.Why
		}
		list = append(list, Removal{Node: n, UID: deleted[n], Mark: mark})
	}
	for _, at := range lost {
		if _, gone := deleted[at.node]; !gone && !deletedUnits[at.unit] {
			list = append(list, Removal{Node: at.node, Mark: wire.ForgetMark{Check: at.unit}})
		}
	}
	return list
}

// RemovalsSince returns the removals of the changes after a revision, up to Revision. A crash between the
// commit of intent and the journal's record of it loses marks. After a restart, with the last revision
// that the journal records as in force (wire.RecordIntent), write the returned list, then record Revision.
// Marks are idempotent.
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
	// Lead the fleet back to its former state, see which placements it gains, and undo it.
	back, kinds := newTranslation(), compiledKinds()
	deletedNodes := map[model.NodeID]uuid.UUID{}
	for _, c := range changes {
		if !slices.Contains(kinds, c.Key.Kind) {
			continue
		}
		switch {
		case c.After != nil:
		case unitCompilers[c.Key.Kind] != nil:
			back.deletedUnits = append(back.deletedUnits, model.UnitID(c.ID))
		case c.Key.Kind == "Node":
			deletedNodes[model.NodeID(c.ID)] = uuid.Nil
			if was, err := p.decode(c.Key, c.ID, c.Before); err == nil {
				deletedNodes[model.NodeID(c.ID)] = was.(*nodeDef).UID
			}
		}
		back.noteEnd(&c)
		back.revert(c, p.decode)
	}
	if err := p.compile(back, func(intent.Key, error) error { return nil }); err != nil {
		return nil, err
	}
	p.chunks.hash(back.units())
	back.compare(p.fleet.definitions)
	var list []Removal
	p.try(back.edits, func(pass *pass) { list = back.removals(pass.gained, deletedNodes) })
	return list, nil
}

// revert leads the definitions back to those before a change. Changes come oldest first, and only the
// oldest of a name counts: it has the state before all of them. A body that does not compile did not
// compile then either: no node had it.
func (t *translation) revert(c intent.Change, decode func(intent.Key, uint32, []byte) (any, error)) {
	at := c.Key
	if c.Was != "" {
		at = keyBefore(c)
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

// try makes edits, lets look see the result, and undoes them. Assignments, generations and the directory
// stay. The caller holds compiling.
func (p *Planner) try(edits []edit, look func(*pass)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.fleet.counts
	pass := p.fleet.apply(edits)
	look(pass)
	p.fleet.apply(undo(edits))
	for _, n := range pass.deleted {
		back := p.fleet.nodes[n.def.ID]
		back.content, back.generation = n.content, n.generation
		p.fleet.setExcess(back, n.excess)
	}
	p.fleet.sweep()
	p.fleet.counts = counts // a trial is no change
}
