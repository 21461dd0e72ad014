package plan

import (
	"context"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// previewIDs are given to resources that have no id yet: far above what intent has
// given, and gone when the preview is.
const previewIDs = 1 << 31

// Preview compiles writes without keeping anything and says where each lands, and
// how many nodes that exist now would get another assignment or be deleted. A write
// that does not compile, a group that would contain itself, or a node that would have
// to hold more than wire.MaxAssignment, is an error.
func (p *Planner) Preview(ctx context.Context, writes []intent.Write) (landings []intent.Placement, affected int, err error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	t := &translation{defs: map[intent.Key]any{}}
	for i, w := range writes {
		var def any
		if w.Body != nil {
			id := idOf(p.defs[w.Source()])
			if id == 0 {
				id = previewIDs + uint32(i)
			}
			if def, err = p.decode(w.Key, id, w.Body); err != nil {
				return nil, 0, err
			}
		}
		if w.From != "" {
			t.set(w.Source(), nil)
		}
		t.set(w.Key, def)
	}
	if err := p.number(ctx, nil, t); err != nil {
		return nil, 0, err
	}
	t.compare(p.defs)
	landings = make([]intent.Placement, len(writes))
	before := make([]intent.Placement, len(writes))
	p.mu.RLock()
	for i, w := range writes {
		before[i] = p.fleet.placement(p.defs[w.Key])
	}
	trusted := p.fleet.trustedMembers()
	p.mu.RUnlock()
	p.try(t.edits, func(pass *pass) {
		if err = p.fleet.cycle(t); err != nil {
			return
		}
		for i, w := range writes {
			if landings[i] = before[i]; w.Body != nil {
				landings[i] = p.fleet.placement(t.defs[w.Key])
			}
		}
		warnings := p.fleet.trusting(writes, trusted)
		for i := range landings {
			landings[i].Warnings = warnings[writes[i].Key]
		}
		var nodes []model.NodeID
		nodes, err = p.fleet.differing(pass)
		for _, id := range nodes {
			if id < previewIDs {
				affected++
			}
		}
		affected += len(pass.deleted)
	})
	if err != nil {
		return nil, 0, err
	}
	return landings, affected, nil
}

// cycle says which of the edited groups contains itself.
func (f *fleet) cycle(t *translation) error {
	done := map[gid]bool{} // false: on the path that is being walked
	var path []string
	var walk func(gid) error
	walk = func(g gid) error {
		path = append(path, f.groupName(g))
		if finished, seen := done[g]; finished {
			path = path[:len(path)-1]
			return nil
		} else if seen {
			from := slices.Index(path, path[len(path)-1])
			return model.Errorf(model.Invalid, "group %s contains itself: %s", path[from], strings.Join(path[from:], " → ")).
				WithHint("take one of them out of the other's groups")
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

func idOf(def any) uint32 {
	switch d := def.(type) {
	case *nodeDef:
		return uint32(d.id)
	case *checkDef:
		return uint32(d.id)
	case *namespaceDef:
		return uint32(d.id)
	}
	return 0
}

// checksNaming counts the checks that name something, and the nodes that they land on.
func (f *fleet) checksNaming(at ref, names func(*checkDef) []string) (checks, nodes int) {
	for _, c := range f.checks {
		if c.def != nil && slices.ContainsFunc(names(c.def), func(name string) bool {
			ns, name := model.SplitRef(c.def.ns, name)
			return ns == at.ns && name == at.name
		}) {
			checks++
			nodes += int(c.holders.GetCardinality())
		}
	}
	return checks, nodes
}

func (f *fleet) placement(def any) (l intent.Placement) {
	switch d := def.(type) {
	case *namespaceDef:
		if of := f.inNamespace[d.name]; of != nil {
			l.Nodes = int(of.GetCardinality())
		}
	case *nodeDef:
		l.Nodes, l.Checks = 1, len(f.nodes[d.id].checks.ids)
	case *groupDef:
		l.Nodes, l.Checks = int(f.group(d.id).members.GetCardinality()), len(f.group(d.id).checks)
	case *checkDef:
		c := f.checks[d.id]
		l.Nodes, l.Checks = int(f.runners(c).GetCardinality()), 1
		l.About = int(c.holders.GetCardinality()) - l.Nodes
	case *propertyDef:
		at := propertyPlace{d.property, d.scope}
		l.Nodes, l.Checks = int(f.readersOf(at).GetCardinality()), len(f.readers[d.property])
	case *routingDef:
		switch d.spec.(type) {
		case *model.PipelineSpec:
			l.Checks, l.Nodes = f.checksNaming(d.ref, func(c *checkDef) []string { return c.chunk.Pipelines })
			l.Hear = f.telling(func(n *nodeDef) bool {
				h := n.names()
				return h != nil && h.passes(n.ns, d.ref)
			})
		case *model.AssetSpec:
			l.Checks, l.Nodes = f.checksNaming(d.ref, func(c *checkDef) []string { return c.assets })
			f.needing(&l, d.ref, func(n needs) []string { return n.assets })
		case *model.HookSpec:
			l.Checks, l.Nodes = f.checksNaming(d.ref, func(c *checkDef) (names []string) {
				for i := range c.hooks {
					if c.hooks[i].Hook != "" {
						names = append(names, c.hooks[i].Hook)
					}
				}
				return names
			})
		}
		if _, ok := d.spec.(*model.RouteSpec); ok {
			for _, c := range f.checks {
				if ns, name := model.SplitRef(c.def.ns, c.def.chunk.Route); c.def.chunk.Route != "" && ns == d.ns && name == d.name {
					l.Checks++
				}
			}
		}
	case *secretDef:
		l.Checks, l.Nodes = f.checksNaming(d.ref, func(c *checkDef) (names []string) {
			for _, s := range c.secrets {
				names = append(names, s.Secret)
			}
			return names
		})
		f.needing(&l, d.ref, func(n needs) []string { return n.secrets })
	case *handlerDef:
		for _, c := range f.checks {
			if d.among(c.def.ns, c.def.chunk.Handlers) {
				l.Checks++
				l.Nodes += int(c.holders.GetCardinality())
			}
		}
		for at, spec := range f.routes {
			if slices.ContainsFunc(spec.Steps, func(s model.RouteStep) bool { return d.among(at.ns, s.To) }) {
				l.Routes++
			}
		}
		for at, spec := range f.pipelines {
			if slices.ContainsFunc(spec.Workflows, func(w model.Workflow) bool { return d.among(at.ns, []string{w.Handler}) }) {
				l.Flows++
			}
		}
		for space, def := range f.namespaces {
			if d.among(space, def.handlers) {
				l.Spaces++
			}
		}
		l.Hear = f.telling(func(n *nodeDef) bool {
			h := n.names()
			return d.among(n.ns, n.tell) || h != nil && d.among(n.ns, h.Handlers)
		})
	}
	return l
}

// needs is what a handler, mutator or filter needs, by name.
type needs struct{ assets, secrets []string }

// needing counts the handlers, mutators and filters that need something.
func (f *fleet) needing(l *intent.Placement, at ref, names func(needs) []string) {
	for by, d := range f.handlers {
		n := needs{assets: d.spec.Assets}
		for _, s := range d.spec.NamedSecrets() {
			n.secrets = append(n.secrets, s.Ref)
		}
		if at.among(by.ns, names(n)) {
			l.Handlers++
		}
	}
	for by, spec := range f.mutators {
		n := needs{assets: spec.Assets}
		for _, s := range spec.Secrets {
			n.secrets = append(n.secrets, s.Secret)
		}
		if at.among(by.ns, names(n)) {
			l.Mutators++
		}
	}
	for by, spec := range f.filters {
		if at.among(by.ns, names(needs{assets: spec.Assets})) {
			l.Filters++
		}
	}
}

// among says whether a list of a namespace names this one.
func (r ref) among(space string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		ns, name := model.SplitRef(space, name)
		return ns == r.ns && name == r.name
	})
}

// telling counts the nodes that name somebody.
func (f *fleet) telling(names func(*nodeDef) bool) (nodes int) {
	for _, n := range f.nodes {
		if n.def != nil && names(n.def) {
			nodes++
		}
	}
	return nodes
}
