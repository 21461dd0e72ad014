package plan

import (
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// placementOf counts the nodes and units that a definition reaches, or the users that name it.
func (f *fleet) placementOf(def any) (l intent.Placement) {
	switch d := def.(type) {
	case *directory.Namespace:
		if of := f.inNamespace[d.Name]; of != nil {
			l.Nodes = int(of.GetCardinality())
		}
	case *nodeDef:
		l.Nodes, l.Checks = 1, len(f.nodes[d.ID].units.ids)
	case *groupDef:
		l.Nodes, l.Checks = int(f.group(d.id).members.GetCardinality()), len(f.group(d.id).units)
	case *unit:
		u := f.units[d.ID]
		l.Nodes, l.Checks = int(f.runners(u).GetCardinality()), 1
		l.About = int(u.nodes.GetCardinality()) - l.Nodes
	case *propertyDef:
		l.Nodes, l.Checks = int(f.readersOf(d.place()).GetCardinality()), len(f.properties.readers[d.property])
	case *resourceDef:
		f.countUsers(&l, d.Resource)
	}
	return l
}

// countUsers counts the units, resources, namespaces and nodes that name a resource.
func (f *fleet) countUsers(l *intent.Placement, of directory.Resource) {
	for _, u := range f.units {
		if !namesAny(of.Name, u.def.Namespace, u.def.needs.of(of.Kind)) {
			continue
		}
		if l.Checks++; of.Kind != "Route" {
			l.Nodes += int(u.nodes.GetCardinality())
		}
	}
	for by, spec := range f.resources {
		if !namesAny(of.Name, by.Namespace, resourceNeeds(spec).of(of.Kind)) {
			continue
		}
		switch by.Kind {
		case "Handler":
			l.Handlers++
		case "Mutator":
			l.Mutators++
		case "Filter":
			l.Filters++
		case "Route":
			l.Routes++
		case "Pipeline":
			l.Flows++
		}
	}
	switch of.Kind {
	case "Handler":
		for _, n := range f.namespaces {
			if namesAny(of.Name, n.Name, n.Handlers) {
				l.Spaces++
			}
		}
		l.Hear = f.countNodes(func(n *nodeDef) bool {
			k := n.Receivers()
			return namesAny(of.Name, n.Namespace, n.endHandlers) || k != nil && namesAny(of.Name, n.Namespace, k.Handlers)
		})
	case "Pipeline":
		l.Hear = f.countNodes(func(n *nodeDef) bool {
			k := n.Receivers()
			if k == nil {
				return false
			}
			imported := k.FromAgent && of.Namespace == n.Namespace &&
				slices.ContainsFunc(k.Handlers, func(name string) bool { return model.SensuPipeline(name) == of.Name.Name })
			return imported || namesAny(of.Name, n.Namespace, k.Pipelines)
		})
	}
}

// of returns the names of resources of a kind.
func (n needs) of(kind string) []string {
	switch kind {
	case "Asset":
		return n.assets
	case "Secret":
		return n.secrets
	case "Hook":
		return n.hooks
	case "Pipeline":
		return n.pipelines
	case "Handler":
		return n.handlers
	case "Route":
		return n.routes
	}
	return nil
}

// resourceNeeds returns the names in a resource that lands on no node.
func resourceNeeds(spec model.Spec) (n needs) {
	switch spec := spec.(type) {
	case *model.HandlerSpec:
		n.assets = spec.Assets
		for _, s := range spec.NamedSecrets() {
			n.secrets = append(n.secrets, s.Ref)
		}
	case *model.MutatorSpec:
		n.assets = spec.Assets
		for _, s := range spec.Secrets {
			n.secrets = append(n.secrets, s.Secret)
		}
	case *model.FilterSpec:
		n.assets = spec.Assets
	case *model.RouteSpec:
		for _, s := range spec.Steps {
			n.handlers = append(n.handlers, s.To...)
		}
	case *model.PipelineSpec:
		for _, w := range spec.Workflows {
			n.handlers = append(n.handlers, w.Handler)
		}
	}
	return n
}

// namesAny reports whether a list of names of a namespace contains a resource.
func namesAny(of route.Name, namespace string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return splitName(namespace, name) == of })
}

func (f *fleet) countNodes(fn func(*nodeDef) bool) (nodes int) {
	for _, n := range f.nodes {
		if fn(n.def) {
			nodes++
		}
	}
	return nodes
}
