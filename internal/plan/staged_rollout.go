package plan

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// A unit with a roll-out has a stored record (model.Rollout) of the version that all its nodes accepted. A compiled
// definition that differs from it becomes the candidate, whatever changed it: the directive, its technique, a policy's
// receivers. The record is written in the commit that stores the candidate, so that no crash comes between, and package
// rollout writes it from there on. Which nodes run the candidate follows from the record, the nodes' ids and their groups.

// rollout has a directive's new version, and the set of nodes that already run the new version. The new version
// is the candidate. It runs on the members of the groups, and on the nodes before the bound in the order of
// model.RolloutOrder.
type rollout struct {
	*body
	bound  uint64
	groups []directory.GroupID
}

// includes reports whether a node already runs the new version in a roll-out.
func (r *rollout) includes(n *node) bool {
	return model.RolloutOrder(n.def.ID) < r.bound || slices.ContainsFunc(r.groups, n.groups.has)
}

// rolloutRow is a stored roll-out with the revision of its database row.
type rolloutRow struct {
	model.Rollout
	revision int64
}

// recompileChangedRollouts compiles again each directive whose stored roll-out has changed. The roll-out differs from
// the one at the last compilation. It adds them to the changes of the translation. A roll-out that the planner itself
// has written is no such change.
func (p *Planner) recompileChangedRollouts(ctx context.Context, t *translation, changes []intent.Change) error {
	if !slices.ContainsFunc(changes, func(c intent.Change) bool { return c.Key.Kind == intent.RolloutKind }) {
		return nil
	}
	rows, err := p.readRollouts(ctx)
	if err != nil {
		return err
	}
	for id, s := range p.fleet.units {
		row := rows[id]
		if s.def.Rollout == nil && row == nil || s.def.Rollout != nil && row != nil && reflect.DeepEqual(s.def.Rollout.Rollout, row.Rollout) {
			continue
		}
		if _, changed := t.defs[s.def.source.key]; !changed {
			t.set(s.def.source.key, s.def.source)
		}
	}
	return nil
}

// stageUnits determines the accepted and the new version of each changed directive with a roll-out. The new
// version is the candidate. It returns the rows to write together with the new definitions.
func (p *Planner) stageUnits(ctx context.Context, t *translation) (writes []intent.Write, err error) {
	if !t.touchesRollouts() {
		return nil, nil
	}
	rows, err := p.readRollouts(ctx)
	if err != nil {
		return nil, err
	}
	reviewed := p.reviewedUnits(t, rows)
	for _, id := range t.deletedUnits {
		if row := rows[id]; row != nil {
			writes = append(writes, intent.Write{Key: intent.RolloutKey(id), Expect: row.revision})
		}
	}
	for _, key := range t.keys {
		u, ok := t.defs[key].(*unit)
		if !ok || u == p.fleet.definitions[key] { // it did not compile, and its last valid definition stays
			continue
		}
		u.steps = reviewedSteps(u, reviewed[u.ID])
		row := rows[u.ID]
		if u.steps == nil && row != nil && row.Spec.Approve && p.fleet.units[u.ID] == nil {
			u.steps = &row.Spec // at a start, and while the unit has no nodes, nobody knows whether a group needs a review: the last change did
		}
		if row == nil && u.steps == nil {
			continue
		}
		write := intent.Write{Key: intent.RolloutKey(u.ID)}
		var before *model.Rollout
		if row != nil {
			before, write.Expect = &row.Rollout, row.revision
		}
		next, err := p.nextRollout(ctx, t, u, before)
		if err != nil {
			return nil, err
		}
		switch {
		case next == nil:
			writes = append(writes, write)
			continue
		case before == nil || !reflect.DeepEqual(before, next):
			if write.Body, err = json.Marshal(next); err != nil {
				return nil, fmt.Errorf("encode the roll-out of %s: %w", key, err)
			}
			write.By = &intent.Actor{User: "server", Message: strings.TrimSuffix("roll-out of "+u.Name.String()+": "+string(next.State), ": ")}
			writes = append(writes, write)
		}
		if err := p.stage(u, next); err != nil {
			return nil, err
		}
	}
	return writes, nil
}

// stagePreview determines the accepted and new versions of unchanged directives in roll-outs, for a preview of
// other changes. A changed one is shown on all the nodes that will have it. The preview may write roll-outs,
// too: written. waits reports whether the new body of a unit needs an approval.
func (p *Planner) stagePreview(ctx context.Context, t *translation, written map[model.UnitID]model.Rollout) (waits func(model.UnitID) bool, err error) {
	waiting := map[model.UnitID]bool{}
	waits = func(id model.UnitID) bool { return waiting[id] }
	if !t.touchesRollouts() {
		return waits, nil
	}
	rows, err := p.readRollouts(ctx)
	if err != nil {
		return waits, err
	}
	for id, r := range written {
		rows[id] = &rolloutRow{Rollout: r}
	}
	reviewed := p.reviewedUnits(t, rows)
	for _, u := range t.units() {
		u.steps = reviewedSteps(u, reviewed[u.ID])
		row, compiled := rows[u.ID], definitionKeyOf(u.definition).databaseKey().Name
		steps := u.steps
		if steps == nil && row != nil {
			steps = &row.Spec // as in nextRollout, the change takes the last steps once more
		}
		waiting[u.ID] = steps != nil && steps.Approve && (row == nil || compiled != row.Accepted && (compiled == row.Candidate || !row.reachedNodes()))
		if row != nil && compiled == row.Candidate {
			if err := p.stage(u, &row.Rollout); err != nil {
				return waits, err
			}
		}
	}
	p.definitions.hash(t.units())
	return waits, nil
}

// reachedNodes reports whether the new version of a roll-out may have reached nodes.
func (r *rolloutRow) reachedNodes() bool { return r.UnderWay() && (r.Bound > 0 || len(r.Steps) > 0) }

// touchesRollouts reports whether the changed resources may affect a roll-out of a directive. They do if they compile
// a directive or delete a unit.
func (t *translation) touchesRollouts() bool {
	return len(t.deletedUnits) > 0 || slices.ContainsFunc(t.units(), func(u *unit) bool { return u.Kind == directory.DirectiveKind })
}

// readRollouts reads the stored roll-outs.
func (p *Planner) readRollouts(ctx context.Context) (map[model.UnitID]*rolloutRow, error) {
	stored, err := p.o.Store.List(ctx, intent.ListQuery{Kind: intent.RolloutKind})
	if err != nil {
		return nil, fmt.Errorf("read the roll-outs from the database: %w", err)
	}
	rows := make(map[model.UnitID]*rolloutRow, len(stored))
	for _, row := range stored {
		r, err := intent.DecodeRollout(row)
		if err != nil {
			return nil, err
		}
		rows[r.Unit] = &rolloutRow{r, row.Revision}
	}
	return rows, nil
}

// nextRollout decides whether a newly compiled directive reaches its nodes gradually, and returns its roll-out.
// It returns nil if the directive needs none. row is its stored roll-out; nil: none.
func (p *Planner) nextRollout(ctx context.Context, t *translation, u *unit, row *model.Rollout) (*model.Rollout, error) {
	compiled := definitionKeyOf(u.definition).databaseKey().Name
	if row == nil {
		next := &model.Rollout{Unit: u.ID, Accepted: compiled, Candidate: compiled, Spec: *u.steps}
		now := p.acceptedDefinition(u)
		if now == nil || definitionKeyOf(now) == definitionKeyOf(u.definition) {
			return next, nil
		}
		next.Accepted = definitionKeyOf(now).databaseKey().Name
		return next, p.beginRollout(ctx, t, u, next, 0)
	}
	next := *row
	switch compiled {
	case row.Candidate:
		if row.UnderWay() {
			return row, nil // with the steps that it had when it began
		}
		if u.steps == nil {
			return nil, nil
		}
		next.Spec = *u.steps
		return &next, nil
	case row.Accepted:
		if u.steps == nil {
			return nil, nil
		}
		next.Candidate, next.State, next.Reason, next.Bound, next.Excused = row.Accepted, model.RolloutUndone, "the declaration is that of before the change", 0, nil
		return &next, nil
	}
	if next.Candidate = compiled; u.steps != nil {
		next.Spec = *u.steps // else a change that removes the steps takes them once more
	}
	base := int64(0)
	if row.UnderWay() {
		base = row.Base
	}
	return &next, p.beginRollout(ctx, t, u, &next, base)
}

// acceptedDefinition returns the version of a directive that its nodes run before the roll-out of a new version. It
// returns nil for a new directive. At a start without a record of the roll-out, a definition that is not stored yet
// belongs to a change that the last stop interrupted.
func (p *Planner) acceptedDefinition(u *unit) (found *model.Definition) {
	if s := p.fleet.units[u.ID]; s != nil && s.def != nil {
		return s.def.definition
	}
	if u.definition.ID != 0 {
		return nil
	}
	for key, d := range p.definitions.byKey {
		if key.unit == u.ID && (found == nil || d.ID > found.ID) {
			found = d
		}
	}
	return found
}

// beginRollout starts the gradual roll-out of a directive's new version, at first without any node. The new
// version is the candidate. The roll-out waits for an approval, or runs at once. base is the revision before
// the change; zero: the last one that the planner applied.
func (p *Planner) beginRollout(ctx context.Context, t *translation, u *unit, r *model.Rollout, base int64) error {
	r.Candidate = definitionKeyOf(u.definition).databaseKey().Name
	r.State, r.Reason, r.Approver, r.Steps, r.Bound, r.Excused, r.StartedAt = model.RolloutRunning, "", "", nil, 0, nil, p.o.Now().UTC().Round(0)
	if r.Spec.Approve {
		r.State, r.Reason = model.RolloutRequested, "another person than its author has to approve it"
	}
	if r.Base = base; base == 0 {
		r.Base = p.Revision()
	}
	last, err := p.sourceChanges(ctx, u, r.Base)
	if err != nil {
		return err
	}
	r.By, r.Authors = "", nil
	for _, c := range last {
		r.By = cmp.Or(r.By, c.Actor.User)
		r.Authors = append(r.Authors, c.Actor.User, cmp.Or(c.Actor.Maker, c.Actor.User))
	}
	slices.Sort(r.Authors)
	r.Authors = slices.Compact(r.Authors)
	if r.Base == 0 && len(last) > 0 { // at a start, which reads resources without their changes
		r.Base = last[0].Revision - 1
	}
	return nil
}

// sourceChanges returns the recent changes of the resources that a directive is compiled from, newest first.
// The directive was compiled from these resources. At a start (zero), or if none is after it, the list has the
// last change.
func (p *Planner) sourceChanges(ctx context.Context, u *unit, revision int64) (list []intent.Change, err error) {
	keys := append([]intent.Key{u.source.key}, u.uses...)
	for _, name := range u.needs["Policy"] {
		ns, name, _ := strings.Cut(name, "/")
		keys = append(keys, intent.Key{Kind: "Policy", Namespace: ns, Name: name})
	}
	for _, key := range keys {
		changes, err := p.o.Store.ChangesBefore(ctx, intent.ChangeQuery{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name})
		if err != nil {
			return nil, fmt.Errorf("find the authors of the change of %s: %w", u.source.key, err)
		}
		list = append(list, changes...)
	}
	slices.SortStableFunc(list, func(a, b intent.Change) int { return cmp.Compare(b.Revision, a.Revision) })
	after := slices.IndexFunc(list, func(c intent.Change) bool { return c.Revision <= revision })
	if after < 0 {
		after = len(list)
	}
	if revision == 0 || after == 0 {
		after = min(len(list), 1)
	}
	return list[:after], nil
}

// stage gives the new version to nodes that a roll-out has reached, and the accepted version to others. The
// nodes that the roll-out has reached get the new version, the others the accepted version. A definition that
// the store lost is replaced by the compiled one, which then reaches all nodes.
func (p *Planner) stage(u *unit, r *model.Rollout) error {
	compiled := u.body
	u.Rollout = &directory.Rollout{Rollout: *r} // definitionStore.hash adds the definitions
	if !r.UnderWay() {
		return nil
	}
	accepted := p.definitions.find(r.Accepted)
	if accepted == nil {
		p.o.Logger.Error("the version before a roll-out is lost: all nodes get the new one", "directive", u.Name.String())
		return nil
	}
	before, err := directiveBody(accepted)
	if err != nil {
		return fmt.Errorf("read the version of %s before its roll-out: %w", u.source.key, err)
	}
	next := &rollout{body: compiled, bound: r.Bound}
	for _, text := range r.Groups() {
		if name, ok := groupName(u.Namespace, text); ok {
			next.groups = insert(next.groups, p.groups.number(name))
		}
	}
	u.body, u.next = before, next
	return nil
}

// find returns a stored compiled check by its database key (the content hash and the check's id). It returns
// nil if no such row exists.
func (s *definitionStore) find(name string) *model.Definition {
	text, unit, _ := strings.Cut(name, "-")
	id, err := strconv.ParseUint(unit, 10, 32)
	hash, broken := hex.DecodeString(text)
	key := definitionKey{unit: model.UnitID(id)}
	if err != nil || broken != nil || copy(key.hash[:], hash) != len(key.hash) {
		return nil
	}
	return s.byKey[key]
}
