package plan

import (
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// publish writes the records that a pass changed into the draft of the directory. Its cost goes with
// their number, not with the fleet.
func (f *fleet) publish(draft *directory.Draft, p *pass, t *translation) {
	for _, e := range t.edits {
		switch def := newOrOld(e.new, e.old).(type) {
		case *directory.Namespace:
			if old, ok := e.old.(*directory.Namespace); ok {
				draft.DeleteNamespace(old)
			}
			if e.new != nil {
				draft.SetNamespace(def)
			}
		case *resourceDef:
			if e.new == nil {
				draft.SetResource(def.Resource, nil)
			} else {
				draft.SetResource(def.Resource, def.spec)
			}
		case *unit:
			p.units[def.ID] = true
		}
	}
	for _, n := range p.deleted {
		draft.DeleteNode(n.def.ID)
	}
	for it := p.placed.Iterator(); it.HasNext(); {
		n := f.nodes[model.NodeID(it.Next())]
		record := directory.PlacedNode{Node: n.def.Node, Groups: n.groups.ids, Units: n.units.ids, Generation: n.generation}
		if n.content != nil {
			record.Content = &n.content.Content
		}
		draft.SetNode(record)
	}
	for _, list := range [...][]placement{p.lost, p.gained} {
		for _, at := range list {
			p.units[at.unit] = true
		}
	}
	for id := range p.units {
		if u := f.units[id]; u != nil {
			draft.SetUnit(directory.PlacedUnit{Unit: u.def.Unit, Nodes: u.nodes.share()})
		} else {
			draft.DeleteUnit(id)
		}
	}
	for id := range p.regrouped {
		g := f.groups[id]
		draft.SetGroup(f.groupNumbers.name(id), directory.Group{Members: g.members.share(), Trusted: g.def != nil && g.def.trusted})
	}
	draft.SetGroupNames(f.groupNumbers.list())
}

// declarations lists the changed resources that routing, pipelines and tools put in force, and again
// those whose namespace got another time zone.
func (f *fleet) declarations(t *translation) (list []route.Declaration) {
	rezoned := map[string]bool{} // namespaces
	for _, e := range t.edits {
		old, _ := e.old.(*directory.Namespace)
		new, ok := e.new.(*directory.Namespace)
		if ok && (old == nil && new.Zone != "" || old != nil && old.Zone != new.Zone) {
			rezoned[new.Name] = true
		}
	}
	declare := func(r directory.Resource, spec model.Spec) {
		d := route.Declaration{Kind: r.Kind, Name: r.Name, Spec: spec}
		if n := f.namespaces[r.Namespace]; n != nil {
			d.Zone = n.Zone
		}
		list = append(list, d)
	}
	zoned := func(r directory.Resource) bool { return rezoned[r.Namespace] && r.Kind != "Silence" }
	if len(rezoned) > 0 {
		for r, spec := range f.resources {
			if inForce[r.Kind] && zoned(r) {
				declare(r, spec)
			}
		}
	}
	for _, key := range t.keys {
		r := directory.Resource{Kind: key.Kind, Name: routeName(key.Namespace, key.Name)}
		if def, ok := t.defs[key].(*resourceDef); inForce[key.Kind] && !ok {
			declare(r, nil)
		} else if inForce[key.Kind] && !zoned(r) {
			declare(r, def.spec)
		}
	}
	return list
}

// inForce has the kinds that directory.Change declares.
var inForce = map[string]bool{"Window": true, "Route": true, "Silence": true, "Filter": true, "Mutator": true, "Pipeline": true, "Asset": true}

// dependenciesDiffer reports whether an edit changes the dependencies of a problem.
func dependenciesDiffer(e edit) bool {
	switch newOrOld(e.new, e.old).(type) {
	case *nodeDef:
		return upstreamOf(e.old) != upstreamOf(e.new)
	case *unit:
		return !slices.Equal(dependsOn(e.old), dependsOn(e.new))
	}
	return false
}

func upstreamOf(def any) directory.Upstream {
	if n, ok := def.(*nodeDef); ok && n.Upstream != nil {
		return *n.Upstream
	}
	return directory.Upstream{}
}

func dependsOn(def any) []route.Name {
	if u, ok := def.(*unit); ok {
		return u.DependsOn
	}
	return nil
}
