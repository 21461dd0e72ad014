package plan

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/wire"
)

// A change of the policies on a node of a group with review needs the approval of another person. A changed directive waits
// in its roll-out (reviewedSteps). Every other change waits as a whole, in package intent: reviewedChanges names its nodes.

// reviewedNodes returns all nodes in groups whose changes need an approval. Changes for such nodes need an
// approval.
func reviewedNodes(f *fleet) *roaring.Bitmap {
	nodes := roaring.New()
	for _, g := range f.groups {
		if g != nil && g.def != nil && g.def.review {
			nodes.Or(g.members.Bitmap)
		}
	}
	return nodes
}

// reviewedUnits returns the changed checks and directives on nodes whose changes need an approval. At a start the
// fleet is empty: if a change waited for its compilation at the last stop, a trial places the units.
func (p *Planner) reviewedUnits(t *translation, rows map[model.UnitID]*rolloutRow) map[model.UnitID]bool {
	found := map[model.UnitID]bool{}
	look := func(*recomputation) {
		reviewed := reviewedNodes(p.fleet)
		for _, u := range t.units() {
			placed, was := p.fleet.units[u.ID], p.fleet.definitions[u.source.key]
			if placed != nil && reviewed.Intersects(placed.nodes.Bitmap) || was != nil && p.fleet.namesReview(was.(*unit)) {
				found[u.ID] = true
			}
		}
	}
	if len(p.fleet.definitions) > 0 {
		look(nil)
		return found
	}
	interrupted := func(u *unit) bool {
		row := rows[u.ID]
		return u.definition.AsDirective() != nil && (u.definition.ID == 0 || row != nil && definitionKeyOf(u.definition).databaseKey().Name != row.Candidate)
	}
	if !slices.ContainsFunc(t.units(), interrupted) {
		return found
	}
	trial := *t
	trial.compare(p.fleet.definitions)
	p.tryEdits(trial.edits, look)
	return found
}

// namesReview reports whether a policy of a directive names a group with review, or its listed nodes. So a node that was
// deleted and joins again under its name gets the approved version.
func (f *fleet) namesReview(u *unit) bool {
	for _, g := range f.groups {
		if g.def != nil && g.def.review && slices.ContainsFunc(u.policies, func(of policyTargets) bool {
			return slices.Contains(of.groups, g.def.id) || slices.ContainsFunc(of.nodes, func(node route.Name) bool {
				return slices.ContainsFunc(g.def.targets.nodes, func(listed route.Name) bool { return matchesNode(listed, node) || matchesNode(node, listed) })
			})
		}) {
			return true
		}
	}
	return false
}

// reviewedSteps returns the roll-out steps of a changed directive, with an approval if a node needs review. A
// directive on a node with review needs an approval, also without steps of its own: then an approved change reaches
// all nodes at once, and no failure stops it.
func reviewedSteps(u *unit, reviewed bool) *model.RolloutSpec {
	if d := u.definition.AsDirective(); d == nil || d.Rudder != "" || u.steps != nil && u.steps.Approve || !reviewed {
		return u.steps
	}
	steps := model.RolloutSpec{Steps: []string{"100%"}, MaxFailed: "100%"}
	if u.steps != nil {
		steps = *u.steps
	}
	steps.Approve = true
	return &steps
}

// reviewedChanges returns the names of the nodes on which a policy change needs an approval. The edit changes
// their policies, or takes the review from them. A deleted node is none of them. awaited has the awaitedProperties before the edit. waits
// reports whether the new body of a unit waits in a roll-out; secrets has the changed Secrets.
func (f inspection) reviewedChanges(b *builder, before *roaring.Bitmap, awaited map[model.NodeID]nodeProperties, waits func(model.UnitID) bool, secrets map[string]bool) (names []string) {
	if before.IsEmpty() {
		return nil
	}
	after, p := reviewedNodes(f.fleet), b.p
	for id := range bitmapIDs(before) {
		n := f.nodes[model.NodeID(id)]
		if n == nil {
			continue
		}
		was := awaited[n.def.ID]
		changed := !after.Contains(id) || f.readsAnySecret(p, n, secrets) || propertiesDiffer(was.names, was.values, b.resolver.properties(n, was.names))
		if !changed && p.build.Contains(id) && n.content != nil {
			now := b.trimToLimit(n, b.content(n))
			changed = policiesDiffer(n.content.definitions, now.definitions, waits)
			if !changed && !(now.propertiesHash == n.content.propertiesHash && slices.Equal(now.names, n.content.names)) {
				names := f.policyProperties(p, n)
				changed = propertiesDiffer(names, n.content.Properties, b.resolver.properties(n, names))
			}
		}
		name := n.def.Name.Name
		if n.def.Namespace != model.DefaultNamespaceName {
			name = n.def.Name.String()
		}
		if changed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// approvalWarnings returns a warning for each changed directive that waits for an approval. A warning is at the write
// of the directive, or else at the first write of a resource that the directive names, or else at the first write.
func approvalWarnings(t *translation, present map[intent.Key]any, writes []intent.Write, waits func(model.UnitID) bool) map[intent.Key][]string {
	warnings := map[intent.Key][]string{}
	for _, u := range t.units() {
		key := intent.Key{Kind: u.Kind, Namespace: u.Namespace, Name: u.Name.Name}
		was, _ := present[key].(*unit)
		if !waits(u.ID) || was == nil || definitionKeyOf(was.definition) == definitionKeyOf(u.definition) {
			continue
		}
		at := slices.IndexFunc(writes, func(w intent.Write) bool { return w.Key == key })
		if at < 0 {
			at = slices.IndexFunc(writes, func(w intent.Write) bool {
				return containsName(route.Name{Namespace: w.Namespace, Name: w.Name}, u.Namespace, u.needs[w.Kind])
			})
		}
		if at = max(at, 0); len(writes) > 0 {
			warnings[writes[at].Key] = append(warnings[writes[at].Key], "no node has the change of directive "+u.Name.String()+" until another person types: "+
				intent.AddNamespaceFlag("muster rollout approve "+u.Name.Name, u.Namespace))
		}
	}
	return warnings
}

// changedSecrets returns the names of Secrets whose value the server will read from another place after the
// changes. It returns only Secrets whose value the server reads. A Secret that agents read is a part of the
// definitions of its directives.
func changedSecrets(t *translation, present map[intent.Key]any) map[string]bool {
	specOf := func(def any) (spec model.SecretSpec, ok bool) {
		if r, _ := def.(*resourceDef); r != nil {
			spec = *r.spec.(*model.SecretSpec)
			spec.Lease = 0
			return spec, true
		}
		return spec, false
	}
	changed := map[string]bool{}
	for _, key := range t.keys {
		if key.Kind != "Secret" {
			continue
		}
		was, known := specOf(present[key])
		is, _ := specOf(t.defs[key])
		if known && was.OnServer() && !reflect.DeepEqual(was, is) {
			changed[key.Namespace+"/"+key.Name] = true
		}
	}
	return changed
}

// readsAnySecret reports whether a directive on a node reads at least one Secret of a given set. A new version
// of a directive counts also while it waits in its roll-out, because its approver may have looked at the Secret
// already.
func (f inspection) readsAnySecret(p *recomputation, n *node, secrets map[string]bool) bool {
	if len(secrets) == 0 || n.content == nil {
		return false
	}
	reads := func(d *model.Definition) bool {
		directive := d.AsDirective()
		return directive != nil && slices.ContainsFunc(directive.Secrets, func(s model.DefinitionSecret) bool { return secrets[s.Name] })
	}
	return slices.ContainsFunc(n.content.definitions, reads) || slices.ContainsFunc(n.units.ids, func(id model.UnitID) bool {
		next := f.unitBefore(p, id).next
		return next != nil && reads(next.definition)
	})
}

// unitBefore returns the compiled form that a check or directive had before an edit. It returns a new unit in
// its present form.
func (f inspection) unitBefore(p *recomputation, id model.UnitID) *unit {
	if was := p.before[id]; was != nil {
		return was
	}
	return f.units[id].def
}

// nodeProperties has some properties of a node, with their values.
type nodeProperties struct {
	names  []string
	values []wire.Property // of the names that have a value
}

// awaitedProperties returns the properties that waiting versions of directives read on nodes with review. Such versions
// wait in their roll-outs. The approver of a version may have looked at the values already.
func (f inspection) awaitedProperties(reviewed *roaring.Bitmap) map[model.NodeID]nodeProperties {
	awaited := map[model.NodeID]nodeProperties{}
	resolver := f.resolver()
	for _, u := range f.units {
		if u.def == nil || u.def.next == nil || u.def.next.definition.AsDirective() == nil {
			continue
		}
		names := slices.DeleteFunc(slices.Clone(u.def.next.properties), func(name string) bool { return name == model.NodeModeProperty }) // the version in force reads the mode, too
		for id := range bitmapIDs(roaring.And(u.nodes.Bitmap, reviewed)) {
			n := f.nodes[model.NodeID(id)]
			of := awaited[n.def.ID]
			of.names = append(of.names, names...)
			of.values = append(of.values, resolver.properties(n, names)...)
			awaited[n.def.ID] = of
		}
	}
	return awaited
}

// policyProperties returns the properties that the directives of a node read before an edit, ascending. A body that
// waits reads none yet, see awaitedProperties.
func (f inspection) policyProperties(p *recomputation, n *node) (names []string) {
	for _, id := range n.units.ids {
		u := f.unitBefore(p, id)
		bodies := []*body{u.body}
		if u.next != nil {
			bodies = append(bodies, u.next.body)
		}
		for _, body := range bodies {
			if body.definition.AsDirective() != nil && slices.Contains(n.content.definitions, body.definition) {
				names = append(names, body.properties...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// policiesDiffer reports whether two lists of definitions, each ascending by id, differ in their directives or Waivers. A unit in both
// that waits does not differ.
func policiesDiffer(was, is []*model.Definition, waits func(model.UnitID) bool) bool {
	lost, got := []*model.Definition(nil), []*model.Definition(nil) // most definitions are in both lists
	add := func(list []*model.Definition, d *model.Definition) []*model.Definition {
		if d.AsDirective() != nil || d.AsWaiver() != nil {
			list = append(list, d)
		}
		return list
	}
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(was) > 0 && len(is) > 0 && was[0] == is[0]:
			was, is = was[1:], is[1:]
		case len(is) == 0 || len(was) > 0 && was[0].ID <= is[0].ID:
			lost, was = add(lost, was[0]), was[1:]
		default:
			got, is = add(got, is[0]), is[1:]
		}
	}
	byUnit := func(a, b *model.Definition) int { return cmp.Compare(a.Unit, b.Unit) }
	slices.SortFunc(lost, byUnit)
	slices.SortFunc(got, byUnit)
	return !slices.EqualFunc(lost, got, func(a, b *model.Definition) bool {
		return a.Unit == b.Unit && a.Kind == b.Kind && (a.Hash == b.Hash || waits(a.Unit))
	})
}

// propertiesDiffer reports whether two lists of properties have different values for any of the given names.
func propertiesDiffer(names []string, was, is []wire.Property) bool {
	value := func(list []wire.Property, name string) (v wire.Property) {
		if i := slices.IndexFunc(list, func(p wire.Property) bool { return p.Name == name }); i >= 0 {
			v = list[i]
		}
		return v
	}
	return slices.ContainsFunc(names, func(name string) bool {
		a, b := value(was, name), value(is, name)
		return !bytes.Equal(a.Value, b.Value) || a.Error != b.Error
	})
}
