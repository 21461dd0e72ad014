package plan

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// read calls fn under the read lock.
func read[T any](p *Planner, fn func(*fleet) T) T {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return fn(p.fleet)
}

// NamespaceByName implements Directory.
func (p *Planner) NamespaceByName(name string) (model.NamespaceID, bool) {
	d := read(p, func(f *fleet) *namespaceDef { return f.namespaces[name] })
	if d == nil {
		return 0, false
	}
	return d.id, true
}

// NamespaceName implements Directory.
func (p *Planner) NamespaceName(id model.NamespaceID) (string, bool) {
	name := read(p, func(f *fleet) string { return f.namespaceOf[id] })
	return name, name != ""
}

// NamespaceLimits implements Directory.
func (p *Planner) NamespaceLimits(name string) *model.Limits {
	d := read(p, func(f *fleet) *namespaceDef { return f.namespaces[name] })
	if d == nil {
		return nil
	}
	return d.limits
}

// NamespaceHandlers are told of problems on the namespace's nodes that name nobody.
func (p *Planner) NamespaceHandlers(name string) []string {
	d := read(p, func(f *fleet) *namespaceDef { return f.namespaces[name] })
	if d == nil {
		return nil
	}
	return d.handlers
}

// Shadow implements Directory: whether nothing is sent of problems on the namespace's nodes.
func (p *Planner) Shadow(namespace string) bool {
	d := read(p, func(f *fleet) *namespaceDef { return f.namespaces[namespace] })
	return d != nil && d.shadow
}

// NodeByName implements Directory.
func (p *Planner) NodeByName(namespace, name string) (model.NodeID, bool) {
	if namespace == model.DefaultNamespaceName && name == model.ServerNodeName {
		return model.ServerNode, true
	}
	id := read(p, func(f *fleet) model.NodeID { return f.byName[ref{namespace, name}] })
	return id, id != 0
}

func (p *Planner) node(id model.NodeID) *nodeDef {
	return read(p, func(f *fleet) *nodeDef {
		if n := f.nodes[id]; n != nil {
			return n.def
		}
		return nil
	})
}

// NodeName implements Directory.
func (p *Planner) NodeName(id model.NodeID) (namespace, name string, ok bool) {
	if id == model.ServerNode {
		return model.DefaultNamespaceName, model.ServerNodeName, true
	}
	d := p.node(id)
	if d == nil {
		return "", "", false
	}
	return d.ns, d.name, true
}

// NodeByUID implements Directory.
func (p *Planner) NodeByUID(uid uuid.UUID) (model.NodeID, bool) {
	id := read(p, func(f *fleet) model.NodeID { return f.byUID[uid] })
	return id, id != 0
}

// NodeUID implements Directory.
func (p *Planner) NodeUID(id model.NodeID) uuid.UUID {
	if d := p.node(id); d != nil {
		return d.uid
	}
	return uuid.Nil
}

// NodeProxy implements Directory.
func (p *Planner) NodeProxy(id model.NodeID) bool {
	d := p.node(id)
	return d != nil && d.proxy
}

// NodeLabels implements Directory.
func (p *Planner) NodeLabels(id model.NodeID) map[string]string {
	if d := p.node(id); d != nil {
		return d.labels.Map()
	}
	return nil
}

// NodeFacts implements Directory.
func (p *Planner) NodeFacts(id model.NodeID) map[string]string {
	if d := p.node(id); d != nil {
		return d.facts.Map()
	}
	return nil
}

// NodeFact implements Directory.
func (p *Planner) NodeFact(id model.NodeID, name string) string {
	if d := p.node(id); d != nil {
		value, _ := d.facts.Get(name)
		return value
	}
	return ""
}

// NodeGroups implements Directory: shared groups as shared/NAME.
func (p *Planner) NodeGroups(id model.NodeID) []string {
	return read(p, func(f *fleet) (list []string) {
		n := f.nodes[id]
		if n == nil {
			return nil
		}
		for _, g := range n.groups.ids {
			list = append(list, f.groupName(g))
		}
		return list
	})
}

// TrustedGroup names a trusted group that a node is in, as of all that is committed when it
// is called; empty: none. Of a node that is not known then nobody says that it is in none:
// it is an error, model.Unavailable, as is all that keeps this from being known.
func (p *Planner) TrustedGroup(ctx context.Context, id model.NodeID) (string, error) {
	if err := p.CatchUp(ctx); err != nil {
		return "", model.Errorf(model.Unavailable, "whether a node is in a trusted group is not known at this moment: %w", err).WithHint("let the machine ask again in a moment")
	}
	group, known := "", false
	read(p, func(f *fleet) bool {
		n := f.nodes[id]
		if known = n != nil; !known {
			return false
		}
		for _, g := range n.groups.ids {
			if at := f.groups[g]; at != nil && at.def != nil && at.def.trusted {
				group = f.groupName(g)
			}
		}
		return true
	})
	if !known {
		return "", model.Errorf(model.Unavailable, "whether a node is in a trusted group is not known: its definition is not in force").WithHint("let the machine ask again in a moment; muster status says what is wrong")
	}
	return group, nil
}

// Machines is how many nodes there are that a machine can be: all but proxy nodes.
func (p *Planner) Machines() int {
	return read(p, func(f *fleet) int { return len(f.nodes) - int(f.proxies.GetCardinality()) })
}

// Nodes implements Directory.
func (p *Planner) Nodes(namespace string) []model.NodeID {
	return read(p, func(f *fleet) []model.NodeID {
		if namespace == "" {
			return nodeIDs(f.all)
		}
		return nodeIDs(f.inNamespace[namespace])
	})
}

// NodesMatching implements Directory.
func (p *Planner) NodesMatching(namespace string, s directory.Selector) []model.NodeID {
	return read(p, func(f *fleet) []model.NodeID {
		from := f.all
		if namespace != "" {
			from = f.inNamespace[namespace]
		}
		if from == nil {
			return nil
		}
		return nodeIDs(f.matching(from.Clone(), s))
	})
}

// GroupMembers implements Directory.
func (p *Planner) GroupMembers(namespace, name string) []model.NodeID {
	return read(p, func(f *fleet) []model.NodeID {
		g, ok := f.gids.known(ref{namespace, name})
		if !ok || f.groups[g] == nil {
			return nil
		}
		return nodeIDs(f.groups[g].members)
	})
}

// CheckByName implements Directory. Built-in checks are known in every namespace.
func (p *Planner) CheckByName(namespace, name string) (model.CheckID, bool) {
	if id := model.BuiltinCheck(name); id != 0 {
		return id, true
	}
	id := read(p, func(f *fleet) model.CheckID { return f.checkByName[ref{namespace, name}] })
	return id, id != 0
}

// CheckName implements Directory.
func (p *Planner) CheckName(id model.CheckID) (namespace, name string, ok bool) {
	if id < model.FirstCheck {
		name = model.BuiltinCheckName(id)
		return model.DefaultNamespaceName, name, name != ""
	}
	c := read(p, func(f *fleet) *checkDef {
		if c := f.checks[id]; c != nil {
			return c.def
		}
		return nil
	})
	if c == nil {
		return "", "", false
	}
	return c.ns, c.name, true
}

// SourceName implements Directory.
func (p *Planner) SourceName(s model.Source) (namespace, name string, ok bool) {
	if s.Kind != model.SourceCheck {
		return "", "", false
	}
	return p.CheckName(s.Check())
}

// NodeUnits implements Directory.
func (p *Planner) NodeUnits(node model.NodeID) []model.CheckID {
	return read(p, func(f *fleet) []model.CheckID {
		if n := f.nodes[node]; n != nil {
			return append([]model.CheckID(nil), n.checks.ids...)
		}
		return nil
	})
}

// Assignment implements Directory.
func (p *Planner) Assignment(node model.NodeID) (revision uint64, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := p.fleet.nodes[node]
	if n == nil || n.content == nil {
		return 0, false
	}
	return n.gen.Revision, true
}

// UnitNodes implements Directory.
func (p *Planner) UnitNodes(check model.CheckID) []model.NodeID {
	return read(p, func(f *fleet) []model.NodeID {
		if c := f.checks[check]; c != nil {
			return nodeIDs(c.holders)
		}
		return nil
	})
}

// HasUnit implements Directory.
func (p *Planner) HasUnit(node model.NodeID, check model.CheckID) bool {
	return read(p, func(f *fleet) bool {
		n := f.nodes[node]
		return n != nil && n.checks.has(check)
	})
}

// Handler implements Directory. The specification must not be changed.
func (p *Planner) Handler(namespace, name string) (*model.HandlerSpec, bool) {
	d := read(p, func(f *fleet) *handlerDef { return f.handlers[ref{namespace, name}] })
	if d == nil {
		return nil, false
	}
	return d.spec, true
}

// Streams implements Directory: the handlers that are told of every result. The specifications must not be
// changed.
func (p *Planner) Streams() map[route.Name]*model.HandlerSpec {
	return read(p, func(f *fleet) map[route.Name]*model.HandlerSpec {
		list := map[route.Name]*model.HandlerSpec{}
		for r, d := range f.handlers {
			if d.spec.Stream != nil && d.spec.Stream.Results == model.AllResults {
				list[route.Name{Namespace: r.ns, Name: r.name}] = d.spec
			}
		}
		return list
	})
}

// Placement counts the users of a declared resource; zero: it is not declared.
func (p *Planner) Placement(key intent.Key) intent.Placement {
	return read(p, func(f *fleet) intent.Placement { return f.placement(f.definition(key)) })
}

// definition finds what a resource became; nil: there is none.
func (f *fleet) definition(key intent.Key) any {
	at := ref{key.Namespace, key.Name}
	switch key.Kind {
	case "Namespace":
		if d := f.namespaces[key.Name]; d != nil {
			return d
		}
	case "Node":
		if n := f.nodes[f.byName[at]]; n != nil {
			return n.def
		}
	case "Group":
		if g, ok := f.gids.known(at); ok && f.groups[g] != nil && f.groups[g].def != nil {
			return f.groups[g].def
		}
	case "Check":
		if c := f.checks[f.checkByName[at]]; c != nil && c.def != nil {
			return c.def
		}
	case "Route":
		return &routingDef{ref: at, spec: &model.RouteSpec{}}
	case "Pipeline":
		return &routingDef{ref: at, spec: &model.PipelineSpec{}}
	case "Hook":
		return &routingDef{ref: at, spec: &model.HookSpec{}}
	case "Asset":
		return &routingDef{ref: at, spec: &model.AssetSpec{}}
	case "Handler":
		if d := f.handlers[at]; d != nil {
			return d
		}
	case "Secret":
		if d := f.secrets[at]; d != nil {
			return d
		}
	case "Property":
		for _, defs := range f.properties {
			for _, d := range defs {
				if d.ref == at {
					return d
				}
			}
		}
	}
	return nil
}

func nodeIDs(b *roaring.Bitmap) []model.NodeID {
	if b == nil {
		return nil
	}
	ids := make([]model.NodeID, 0, b.GetCardinality())
	for it := b.Iterator(); it.HasNext(); {
		ids = append(ids, model.NodeID(it.Next()))
	}
	return ids
}
