package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Removal is a node that no longer holds a check, or a check or node that is gone.
type Removal struct {
	Node model.NodeID // zero: all nodes
	UID  uuid.UUID    // of a node that is gone, where it is known: nobody else can tell it any more
	Mark wire.ForgetMark
}

// forgotten turns what nodes lost into marks. A deleted check is one mark for all
// nodes, a deleted node one mark for all its checks.
func (t *translation) forgotten(lost []holding, deleted map[model.NodeID]uuid.UUID) (marks []Removal) {
	goneChecks := map[model.CheckID]bool{}
	for _, c := range t.deletedChecks {
		goneChecks[c] = true
		marks = append(marks, Removal{Mark: wire.ForgetMark{Check: c, Deleted: true}})
	}
	for _, n := range slices.Sorted(maps.Keys(deleted)) {
		mark := wire.ForgetMark{Deleted: true}
		if left := t.left[n]; left != nil {
			mark.Deregistered, mark.Handlers, mark.Reason = left.Namespace+"/"+left.Node, strings.Join(left.Tell, ","), left.Why
		}
		marks = append(marks, Removal{Node: n, UID: deleted[n], Mark: mark})
	}
	for _, h := range lost {
		if _, gone := deleted[h.node]; !gone && !goneChecks[h.check] {
			marks = append(marks, Removal{Node: h.node, Mark: wire.ForgetMark{Check: h.check}})
		}
	}
	return marks
}

func uidOf(def any) uuid.UUID {
	if d, ok := def.(*nodeDef); ok {
		return d.uid
	}
	return uuid.Nil
}

// RemovalsSince says what changes after the revision, and up to Revision, made nodes
// forget. A crash between the commit of intent and the journal's record of it
// swallows marks; so after a restart, with the last revision that the journal records
// as in force (wire.RecordIntent), write what this returns, then record Revision.
// Marks are idempotent: writing one twice does no harm.
func (p *Planner) RemovalsSince(ctx context.Context, revision int64) ([]Removal, error) {
	if revision >= p.Revision() {
		return nil, nil
	}
	changes, err := p.changesUntilNow(ctx, revision)
	if err != nil {
		return nil, err
	}
	p.compiling.Lock()
	defer p.compiling.Unlock()
	// Lead the fleet back to what it was, see what it gains by that, and undo it.
	back := &translation{defs: map[intent.Key]any{}}
	var deletedChecks []model.CheckID
	deletedNodes := map[model.NodeID]uuid.UUID{}
	for _, c := range changes {
		if !slices.Contains(kinds[:], c.Key.Kind) {
			continue
		}
		if c.After == nil {
			switch c.Key.Kind {
			case "Check":
				deletedChecks = append(deletedChecks, model.CheckID(c.ID))
			case "Node":
				was, _ := p.decode(c.Key, c.ID, c.Before)
				deletedNodes[model.NodeID(c.ID)] = uidOf(was)
			}
		}
		back.leaves(&c)
		back.undo(c, p.decode)
	}
	if err := p.number(ctx, nil, back); err != nil {
		return nil, err
	}
	back.compare(p.defs)
	back.deletedChecks = deletedChecks
	var marks []Removal
	p.try(back.edits, func(pass *pass) { marks = back.forgotten(pass.gained, deletedNodes) })
	return marks, nil
}

// undo leads the definitions back to what they were before a change. Changes come oldest
// first, and only the oldest of a name counts: what was there before it.
func (t *translation) undo(c intent.Change, decode func(intent.Key, uint32, []byte) (any, error)) {
	at := c.Key
	if c.Was != "" {
		at = before(c)
		if _, known := t.defs[c.Key]; !known {
			t.set(c.Key, nil) // nobody had the name
		}
	}
	if _, known := t.defs[at]; known {
		return
	}
	var def any
	if c.Before != nil {
		var err error
		if def, err = decode(at, c.ID, c.Before); err != nil {
			return // it did not compile then either: nobody held it
		}
	}
	t.set(at, def)
}

func (p *Planner) changesUntilNow(ctx context.Context, revision int64) (all []intent.Change, err error) {
	until := p.Revision()
	for revision < until {
		changes, err := p.o.Store.Changes(ctx, revision, catchUpChanges)
		if err != nil {
			return nil, fmt.Errorf("read changes: %w", err)
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

// try makes edits, lets look see what came of them, and undoes them. Assignments and
// generations are not touched. The caller holds compiling.
func (p *Planner) try(edits []edit, look func(*pass)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.fleet.counts
	pass := p.fleet.apply(edits)
	look(pass)
	p.fleet.apply(undo(edits))
	for _, n := range pass.deleted {
		back := p.fleet.nodes[n.def.id]
		back.content, back.gen = n.content, n.gen
		p.fleet.exceed(back, n.excess)
	}
	p.fleet.sweep()
	p.fleet.counts = counts // a trial is no change
}
