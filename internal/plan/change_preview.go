package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// previewIDs is the first id for new resources in a preview. It is far above the ids of stored resources.
const previewIDs = 1 << 31

// Preview returns the effect that planned changes would have on nodes, without making the changes. With detailed it
// also returns the changed units and the time of each step. It fails if a write does not compile, if a group would
// contain itself, if new conditions take too much time, or if an assignment would exceed wire.MaxAssignment.
func (p *Planner) Preview(ctx context.Context, writes []intent.Write, detailed bool) (out intent.Impact, err error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	steps := stopwatch{now: p.o.Now, last: p.o.Now()}
	t, definitions, look := newTranslation(), p.fleet.definitions, inspection{p.fleet}
	rollouts := map[model.UnitID]model.Rollout{}
	for i, w := range writes {
		if w.Kind == intent.RolloutKind {
			r, err := intent.DecodeRollout(intent.Row{Key: w.Key, Body: w.Body})
			if err != nil {
				return out, err
			}
			rollouts[r.Unit] = r
			continue
		}
		var def any
		if w.Body != nil {
			id := resourceIdentityOf(definitions[w.Source()]).id
			if id == 0 {
				id = previewIDs + uint32(i)
			}
			if def, err = p.decode(w.Key, id, w.Body); err != nil {
				return out, err
			}
		}
		if w.From != "" {
			t.set(w.Source(), nil)
		}
		t.set(w.Key, def)
	}
	steps.lap("decode")
	if err := p.compile(t, func(_ intent.Key, err error) error { return err }); err != nil {
		return out, err
	}
	p.definitions.hash(t.units())
	waits, err := p.stagePreview(ctx, t, rollouts)
	if err != nil {
		return out, err
	}
	t.compare(definitions)
	steps.lap("compile")
	landings := make([]intent.Placement, len(writes))
	p.mu.RLock()
	for i, w := range writes {
		landings[i] = look.countPlacement(definitions[w.Key])
	}
	trusted, reviewed := look.trustedMembers(), reviewedNodes(look.fleet)
	awaited := look.awaitedProperties(reviewed)
	p.mu.RUnlock()
	steps.lap("present placement")
	secrets, approvals := changedSecrets(t, definitions), approvalWarnings(t, definitions, writes, waits)
	p.fleet.limitsConditions = true
	p.tryEdits(t.edits, func(pass *recomputation) {
		steps.laps = append(steps.laps, pass.steps.laps...)
		steps.last = p.o.Now()
		if err = cmp.Or(pass.costly, look.cycleError(t)); err != nil {
			return
		}
		warnings := look.tokenWarnings(writes, trusted)
		for i, w := range writes {
			if w.Body != nil {
				landings[i] = look.countPlacement(t.defs[w.Key])
			}
			landings[i].Warnings = append(warnings[w.Key], approvals[w.Key]...)
			if u, ok := t.defs[w.Key].(*unit); ok && w.Body != nil {
				landings[i].Warnings = slices.Concat(landings[i].Warnings, look.sharedKeyWarnings(u.ID), look.waiverWarnings(u.ID))
			}
			if w.Body != nil {
				landings[i].Warnings = append(landings[i].Warnings, look.enforcementWarnings(directivesOf(t.defs[w.Key]), t, writes)...)
			}
		}
		steps.lap("placement and warnings")
		var nodes []model.NodeID
		b := p.fleet.builder(pass)
		defer b.discardUnusedContents()
		nodes, err = b.changedAssignments()
		steps.lap("assignments")
		for _, id := range nodes {
			if id < previewIDs {
				out.Affected++
			}
		}
		out.Affected += len(pass.deleted)
		out.Reviewed = look.reviewedChanges(b, reviewed, awaited, waits, secrets)
		if detailed && err == nil {
			out.Units = look.unitImpacts(pass)
			steps.lap("differences")
		}
	})
	if err != nil {
		return out, err
	}
	steps.lap("undo the trial")
	out.Placements, out.HasReview = landings, !reviewed.IsEmpty()
	if detailed {
		out.Timings = steps.laps
	}
	return out, nil
}

// cycleError returns an error if one of the edited groups contains itself.
func (f inspection) cycleError(t *translation) error {
	done := map[directory.GroupID]bool{} // visited groups; false: on the path that is being walked
	var path []string
	var walk func(directory.GroupID) error
	walk = func(g directory.GroupID) error {
		path = append(path, f.groupText(g))
		if finished, seen := done[g]; finished {
			path = path[:len(path)-1]
			return nil
		} else if seen {
			from := slices.Index(path, path[len(path)-1])
			return model.Errorf(model.Invalid, "group %s contains itself: %s", path[from], strings.Join(path[from:], " → ")).
				WithHint("remove one of these groups from the spec.groups of the other")
		}
		done[g] = false
		if def := f.groups[g].def; def != nil {
			for _, inside := range def.targets.groups {
				if err := walk(inside); err != nil {
					return err
				}
			}
		}
		done[g] = true
		path = path[:len(path)-1]
		return nil
	}
	for _, key := range t.keys {
		if def, ok := t.defs[key].(*groupDef); ok {
			if err := walk(def.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// A machine that joins by a token chooses its own node name. The functions below warn an operator who brings such a node
// into a trusted group, by its name or its labels.

// trustedMembers returns the members of each trusted group, a group that machines cannot join by themselves. No
// machine can join a trusted group by itself. The caller may change the bitmaps.
func (f inspection) trustedMembers() map[directory.GroupID]*roaring.Bitmap {
	members := map[directory.GroupID]*roaring.Bitmap{}
	for g, group := range f.groups {
		if group.def != nil && group.def.trusted {
			members[g] = group.members.Clone()
		}
	}
	return members
}

// tokenWarnings returns a warning for each change that puts machines joined by token into a trusted group. The
// machines joined by a token. before has the trustedMembers before the writes.
func (f inspection) tokenWarnings(writes []intent.Write, before map[directory.GroupID]*roaring.Bitmap) map[intent.Key][]string {
	written := make(map[intent.Key]bool, len(writes))
	for _, w := range writes {
		written[w.Key] = w.Body != nil
	}
	out := map[intent.Key][]string{}
	for g, members := range f.trustedMembers() {
		if was := before[g]; was != nil {
			members.AndNot(was)
		}
		var others []string
		for id := range bitmapIDs(members) {
			d := f.nodes[model.NodeID(id)].def
			if d.grant == nil || d.grant.token == "" {
				continue
			}
			if key := (intent.Key{Kind: "Node", Namespace: d.Namespace, Name: d.Name.Name}); written[key] {
				out[key] = append(out[key], fmt.Sprintf("it joins the trusted group %s, and its machine joined with %s and chose its name: check that it is the intended one, muster describe node %s -n %s",
					f.groupText(g), d.grant.text, d.Name.Name, d.Namespace))
				continue
			}
			others = append(others, d.Name.String())
		}
		at := f.groupNumbers.name(g)
		if key := (intent.Key{Kind: "Group", Namespace: at.Namespace, Name: at.Name}); len(others) > 0 && written[key] {
			out[key] = append(out[key], "it is trusted, and "+joinedByToken(others)+": check that they are the intended ones, muster describe node NAME")
		}
	}
	for _, warnings := range out {
		slices.Sort(warnings)
	}
	return out
}

// sharedKeyWarnings returns a warning for each item key that two Templates on the same node define. Such nodes
// collect the key twice, as two items. It returns none for a check.
func (f inspection) sharedKeyWarnings(id model.UnitID) (out []string) {
	own := f.units[id]
	if own == nil || own.def == nil || own.def.definition.AsTemplate() == nil {
		return nil
	}
	template := own.def.definition.AsTemplate()
	keys := make(map[string]bool, len(template.Items))
	for i := range template.Items {
		keys[template.Items[i].Key] = true
	}
	for _, other := range f.units {
		if other == own || other.def == nil || other.def.definition.AsTemplate() == nil {
			continue
		}
		second := other.def.definition.AsTemplate()
		var shared []string
		for i := range second.Items {
			if keys[second.Items[i].Key] {
				shared = append(shared, second.Items[i].Key)
			}
		}
		if len(shared) == 0 {
			continue
		}
		if nodes := roaring.And(f.runners(own), f.runners(other)).GetCardinality(); nodes > 0 {
			out = append(out, fmt.Sprintf("%s would collect %s also from template %s, such as %s: delete them from one of the two, or keep two items with one key",
				model.CountNoun(int(nodes), "node"), model.CountNoun(len(shared), "key"), other.def.Name, shared[0]))
		}
	}
	slices.Sort(out)
	return out
}

// joinedByToken formats the number and some names of nodes that joined by a token, for a warning
func joinedByToken(nodes []string) string {
	slices.Sort(nodes)
	n, more := len(nodes), ""
	if n > 5 {
		nodes, more = nodes[:5], ", …"
	}
	if n == 1 {
		return "it gets a node whose machine joined by a token and chose its name: " + nodes[0]
	}
	return fmt.Sprintf("it gets %d nodes whose machines joined by a token and chose their names: %s%s", n, strings.Join(nodes, ", "), more)
}
