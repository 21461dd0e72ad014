package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// compileWaiver compiles a Waiver, which excuses nodes from components (checked parts) of directives. So its
// edit changes only the assignments of its nodes, and no definition of a directive. An expired waiver stays on
// its nodes: each agent reads the end.
func compileWaiver(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns := d.spec.(*model.WaiverSpec), d.key.Namespace
	definition := &model.WaiverDefinition{
		Definition: model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(ns).ID},
		Components: spec.Components, ExpiresUnixMs: spec.Expires.UnixMilli(),
	}
	if spec.Technique != "" {
		definition.Technique = splitName(ns, spec.Technique).String()
	} else {
		of := splitName(ns, spec.Directive)
		definition.Directive, definition.DirectiveNamespace = of.Name, c.namespace(of.Namespace).ID
	}
	u := &unit{
		Unit: &directory.Unit{ID: model.UnitID(d.id), Kind: d.key.Kind, Name: d.name(), Labels: d.meta.Labels, Annotations: d.meta.Annotations, DisplayName: d.meta.DisplayName},
		body: &body{definition: definition.ToDefinition()},
	}
	var err error
	if u.size, err = definitionSize(u.definition); err != nil {
		return nil, err
	}
	if spec.Targets != nil {
		if u.targets, err = c.targets(ns, spec.Targets); err != nil {
			return nil, err
		}
		u.Groups, u.HasTargets = u.targets.groups, true
	}
	return u, nil
}

// countSelfChosenNodes counts the nodes that a Waiver selects only by values from the machines themselves. Values that the
// machines themselves report have selected them.
func (f inspection) countSelfChosenNodes(u *placedUnit) (count int) {
	t := u.def.targets
	for id := range bitmapIDs(u.nodes.Bitmap) {
		if n := f.nodes[model.NodeID(id)]; t != nil && !(newTrustRules(f.fleet).operatorsChoseTargets(t, n, 0) && (t.except == nil || newTrustRules(f.fleet).operatorsChoseExceptions(t.except))) {
			count++
		}
	}
	return count
}

// waiverWarnings returns the warnings about a Waiver. No node has a directive that it covers, nodes may have chosen it
// by their facts, or it covers components that do not exist.
func (f inspection) waiverWarnings(id model.UnitID) (out []string) {
	own := f.units[id]
	if own == nil || own.def == nil || own.def.definition.AsWaiver() == nil {
		return nil
	}
	waiver := own.def.definition.AsWaiver()
	covered, missing := false, slices.Clone(waiver.Components)
	for _, u := range f.units {
		if u.def == nil || u.def.definition.AsDirective() == nil || !waiver.CoversDirective(u.def.definition.AsDirective()) {
			continue
		}
		covered = covered || roaring.And(f.runners(own), u.nodes.Bitmap).GetCardinality() > 0
		for _, c := range u.def.definition.AsDirective().Components {
			missing = slices.DeleteFunc(missing, func(name string) bool { return model.ComponentWithin(c.Name, name) })
		}
	}
	if !covered {
		return []string{"none of its nodes has a directive that it covers: muster get compliance"}
	}
	if n := f.countSelfChosenNodes(own); n > 0 {
		out = append(out, fmt.Sprintf("on %s facts, or labels and groups of the agent, select it: such a machine can excuse itself. Name nodes, or a group with trusted: true", model.CountNoun(n, "node")))
	}
	if len(missing) > 0 {
		out = append(out, fmt.Sprintf("no directive that it covers has the component %s: muster describe technique NAME lists them", strings.Join(missing, ", ")))
	}
	return out
}
