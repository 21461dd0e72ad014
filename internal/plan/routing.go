package plan

import (
	"slices"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Routing is where windows, routes and silences are put in force (*route.Table), and filters,
// mutators and pipelines (*pipes.Table). It passes over kinds that it does not know.
type Routing interface {
	Set(name route.Name, zone string, spec model.Spec) error
	Remove(kind string, name route.Name)
	// Announce says that something else has changed which decides who is told.
	Announce()
}

// routes puts in force what changed of windows, routes and silences, and those whose
// namespace has another time zone now. The caller holds compiling.
func (p *Planner) routes(t *translation) {
	moved := map[string]bool{} // namespaces
	if slices.ContainsFunc(t.edits, hangsElse) {
		p.enforce("", func(to Routing) { to.Announce() })
	}
	for _, e := range t.edits {
		old, _ := e.old.(*namespaceDef)
		new, ok := e.new.(*namespaceDef)
		if ok && (old == nil && new.zone != "" || old != nil && old.zone != new.zone) {
			moved[new.name] = true
		}
	}
	if len(moved) > 0 {
		for key, def := range p.defs {
			if d, ok := def.(*routingDef); ok && moved[key.Namespace] && key.Kind != "Silence" {
				p.route(key, d)
			}
		}
	}
	for _, key := range t.keys {
		d, ok := t.defs[key].(*routingDef)
		switch key.Kind {
		case "Window", "Route", "Silence", "Filter", "Mutator", "Pipeline", "Asset":
			if !ok {
				p.enforce(key.Kind, func(to Routing) { to.Remove(key.Kind, route.Name{Namespace: key.Namespace, Name: key.Name}) })
			} else if !moved[key.Namespace] || key.Kind == "Silence" {
				p.route(key, d)
			}
		}
	}
}

func (p *Planner) route(key intent.Key, d *routingDef) {
	zone := ""
	if of, ok := p.defs[intent.Key{Kind: "Namespace", Name: key.Namespace}].(*namespaceDef); ok {
		zone = of.zone
	}
	p.enforce(key.Kind, func(to Routing) {
		if err := to.Set(route.Name{Namespace: key.Namespace, Name: key.Name}, zone, d.spec); err != nil {
			// Service refuses such a thing: it comes from another version.
			p.o.Logger.Error("cannot put a resource in force; what was in force stays",
				"kind", key.Kind, "namespace", key.Namespace, "name", key.Name, "error", err)
		}
	})
}

// enforce tells all who put something of the kind in force.
func (p *Planner) enforce(kind string, tell func(Routing)) {
	for i, to := range []Routing{p.o.Routing, p.o.Pipelines, p.o.Tools} {
		if to != nil && (kind != "Asset" || i == 2) {
			tell(to)
		}
	}
}
