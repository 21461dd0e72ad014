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
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/wire"
)

// Inspector answers diagnostic questions about checks, properties and errors of nodes. Examples are why a check runs
// on a node, and where a property value comes from. It holds the planner's read lock meanwhile, so frequent look-ups
// belong in the directory.
type Inspector struct{ p *Planner }

// inspection answers questions about the planner's fleet, without changing anything. The caller holds the planner's
// lock.
type inspection struct{ *fleet }

// Inspector returns the inspector of the planner.
func (p *Planner) Inspector() *Inspector { return &Inspector{p} }

// withFleet calls fn under the read lock of the planner's fleet.
func (i *Inspector) withFleet(fn func(inspection)) {
	i.p.mu.RLock()
	defer i.p.mu.RUnlock()
	fn(inspection{i.p.fleet})
}

// NodeProperties returns a function to look up the value of any property of a node by name. No check of the
// node needs to read the property.
func (i *Inspector) NodeProperties(id model.NodeID) model.PropertyValues {
	return func(name string) (value []byte, conflict string, ok bool) {
		i.withFleet(func(f inspection) {
			n := f.nodes[id]
			if n == nil {
				return
			}
			if v := f.resolver().property(n, name); v != nil {
				value, conflict, ok = v.Value, v.Error, true
			}
		})
		return value, conflict, ok
	}
}

// Placement counts the nodes of a declared resource, and the resources and nodes that use the resource. It also counts
// the resources and nodes that refer to the resource.
func (i *Inspector) Placement(key intent.Key) (l intent.Placement) {
	i.withFleet(func(f inspection) { l = f.countPlacement(f.definitions[key]) })
	return l
}

// Select returns the nodes that the given targets (groups, names, condition) would select in a namespace. It fails if
// a condition does not compile. It evaluates each condition on every node of the namespace.
func (i *Inspector) Select(namespace string, t *model.Targets) (ids []model.NodeID, err error) {
	i.p.compiling.Lock()
	compiled, err := i.p.compiler.targets(namespace, t)
	i.p.compiling.Unlock()
	if err != nil {
		return nil, err
	}
	i.withFleet(func(f inspection) {
		ids = nodeIDs(f.selectedNodesBy(compiled, namespace, func(c *condition) *roaring.Bitmap {
			found, costly := f.evaluateOnce(c, namespace)
			err = cmp.Or(err, costly)
			return found
		}))
	})
	return ids, err
}

// evaluateOnce evaluates a new condition, without an index, on all nodes that the namespace's resources may
// select. It does not add the condition to the fleet. A condition that takes more than maxConditionTime is an error.
func (f inspection) evaluateOnce(c *condition, namespace string) (*roaring.Bitmap, error) {
	found, over := roaring.New(), f.all
	limited, cancel := context.WithTimeout(context.Background(), maxConditionTime)
	defer cancel()
	began := f.now()
	if namespace != shared {
		over = f.inNamespace[namespace]
	}
	if over == nil {
		return found, nil
	}
	seen, at := where.NewNode(), model.NodeID(0)
	if f.newSearch != nil {
		search := f.newSearch(limited)
		seen.SetInventory(func(t *where.EntryTerm) (found, known bool) { return search(at, t) })
	}
	for id := range bitmapIDs(over) {
		n := f.nodes[model.NodeID(id)]
		at = n.def.ID
		seen.Set(n.def.Namespace, n.def.Name.Name, n.def.Labels, n.def.Facts)
		if c.ReadsGroups() {
			names := make([]string, len(n.groups.ids))
			for i, g := range n.groups.ids {
				names[i] = f.groupText(g)
			}
			seen.SetGroups(names)
		}
		if c.Match(seen) {
			found.Add(id)
		}
		if limited.Err() != nil || f.now().Sub(began) > maxConditionTime {
			return found, c.timeError()
		}
	}
	return found, nil
}

// Fault is an error that keeps nodes from running all their checks. An example is a missing property. The Fault has
// the number of affected nodes.
type Fault struct {
	Check    model.CheckID // zero: the fault concerns the whole node
	Text     string
	Nodes    int
	Examples []model.NodeID // some of the nodes with the fault, ascending
}

// fault is an error of one check, which all nodes with the same checks and property values share
type fault struct {
	unit model.UnitID
	text string
}

// faultExamples is the number of nodes that an error in the list of Faults names as examples.
const faultExamples = 3

// Faults lists the errors that keep nodes of a namespace from running their checks, most frequent first. Each error
// has the number of affected nodes. An empty namespace stands for all namespaces. It visits every node, but computes
// the faults of a shared content once.
func (i *Inspector) Faults(namespace string) (list []Fault, nodes int) {
	found := map[fault]*Fault{}
	add := func(key fault, id model.NodeID) {
		f := found[key]
		if f == nil {
			f = &Fault{Check: key.unit, Text: key.text}
			found[key] = f
		}
		f.Nodes++
		at, _ := slices.BinarySearch(f.Examples, id)
		f.Examples = slices.Insert(f.Examples, at, id)
		f.Examples = f.Examples[:min(len(f.Examples), faultExamples)]
	}
	i.withFleet(func(f inspection) {
		for id, n := range f.nodes {
			if namespace != "" && n.def.Namespace != namespace {
				continue
			}
			faults := f.faultsOfNode(n)
			for _, key := range faults {
				add(key, id)
			}
			if len(faults) > 0 {
				nodes++
			}
		}
	})
	for _, f := range found {
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Text, b.Text))
	})
	return list, nodes
}

// NodeFaults lists the errors that keep a node from running all its checks. An example is a missing property.
func (i *Inspector) NodeFaults(node model.NodeID) (list []Fault) {
	i.withFleet(func(f inspection) {
		if n := f.nodes[node]; n != nil {
			for _, x := range f.faultsOfNode(n) {
				list = append(list, Fault{Check: x.unit, Text: x.text, Nodes: 1, Examples: []model.NodeID{node}})
			}
		}
	})
	return list
}

// faultsOfNode lists the errors that keep a node from running all its checks. An example is a missing property.
func (f inspection) faultsOfNode(n *node) []fault {
	if n.def.Proxy {
		return f.proxyFaults(n)
	}
	if n.content == nil {
		return nil
	}
	if known := n.content.faults.Load(); known != nil {
		return *known
	}
	found := f.faultsOfContent(n.content)
	n.content.faults.Store(&found)
	return found
}

// faultsOfContent returns the errors that checks would have with the property values of an assignment. It expands the
// templates of each check as agents do. A unit that is left out is an error, too.
func (f inspection) faultsOfContent(c *content) (list []fault) {
	for _, id := range c.leftOut {
		if u := f.units[id]; u != nil && u.def != nil {
			list = append(list, fault{id, fmt.Sprintf("%s %s is left out: with it the node's assignment would exceed %s", strings.ToLower(u.def.Kind), u.def.Name.Name, kibibytes(wire.MaxAssignment))})
		}
	}
	if len(c.names) == 0 {
		return list
	}
	for _, definition := range c.definitions {
		u := f.units[definition.Unit]
		if u == nil || u.def == nil || u.def.proxies != nil {
			continue
		}
		body := u.def.body
		if next := u.def.next; next != nil && next.definition == definition {
			body = next.body
		}
		list = u.def.faults(list, body, c.Properties)
	}
	return list
}

// proxyFaults lists the errors of the checks about a proxy node. Other machines run these checks with the properties
// of the proxy node.
func (f inspection) proxyFaults(n *node) (list []fault) {
	r := f.resolver()
	for _, id := range n.units.ids {
		if u := f.units[id].def; u.try != nil {
			list = u.faults(list, u.body, r.properties(n, u.properties))
		}
	}
	return list
}

// faults appends an error to a list if a check's templates fail with given property values. The expansion uses
// the given property values.
func (u *unit) faults(list []fault, b *body, properties []wire.Property) []fault {
	if b.try == nil {
		return list
	}
	err := b.try(func(name string) ([]byte, string, bool) {
		i, ok := slices.BinarySearchFunc(properties, name, func(p wire.Property, name string) int { return cmp.Compare(p.Name, name) })
		if !ok {
			return nil, "", false
		}
		return properties[i].Value, properties[i].Error, true
	})
	if err != nil {
		list = append(list, fault{u.ID, fmt.Sprintf("%s %s: %v", strings.ToLower(u.Kind), u.Name.Name, err)})
	}
	return list
}

// countPlacement counts the nodes of a resource, and the resources and nodes that use the resource. It also counts the
// resources and nodes that refer to the resource.
func (f inspection) countPlacement(def any) (l intent.Placement) {
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
		l.ProxyNodes = int(u.nodes.GetCardinality()) - l.Nodes
		for id := range bitmapIDs(u.overridden) {
			if l.OverriddenBy == nil {
				l.OverriddenBy = map[string]int{}
			}
			name := f.overridingDirective(f.nodes[model.NodeID(id)], d).Name
			if name.Namespace == d.Namespace {
				l.OverriddenBy[name.Name]++
			} else {
				l.OverriddenBy[name.String()]++
			}
		}
		l.AuditOnly = f.countAuditOnlyNodes(d)
	case *propertyDef:
		l.Nodes, l.Checks = int(f.readersOf(d.indexKey()).GetCardinality()), len(f.properties.readers[d.property])
	case *resourceDef:
		if f.countUsers(&l, d.ResourceKey); d.Kind == "Policy" {
			l.Nodes = int(f.policyNodes(d).GetCardinality())
		}
	}
	return l
}

// policyNodes returns the nodes that a policy selects for at least one of its directives.
func (f inspection) policyNodes(d *resourceDef) *roaring.Bitmap {
	nodes := roaring.New()
	for _, u := range f.units {
		for _, p := range u.def.policies {
			if p.policy == d.Name { // its targets are the same for all its directives
				nodes.Or(f.selectedNodes(p.targets, d.Namespace))
				return nodes
			}
		}
	}
	return nodes
}

// countUsers counts the checks, other resources, namespaces and nodes that refer to a resource
func (f inspection) countUsers(l *intent.Placement, of directory.ResourceKey) {
	for _, u := range f.units {
		if !containsName(of.Name, u.def.Namespace, u.def.needs[of.Kind]) {
			continue
		}
		if l.Checks++; of.Kind != "Route" {
			l.Nodes += int(u.nodes.GetCardinality())
		}
	}
	for by, def := range f.resources {
		if !slices.ContainsFunc(def.references, func(r kind.Reference) bool {
			return r.Kind == of.Kind && r.Namespace == of.Namespace && r.Name == of.Name.Name
		}) {
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
			l.Pipelines++
		}
	}
	switch of.Kind {
	case "Handler":
		for _, n := range f.namespaces {
			if containsName(of.Name, n.Name, n.Handlers) {
				l.Namespaces++
			}
		}
		l.NotifiedNodes = f.countNodes(func(n *nodeDef) bool {
			k := n.KeepaliveFailureReceivers()
			return containsName(of.Name, n.Namespace, n.endHandlers) || k != nil && containsName(of.Name, n.Namespace, k.Handlers)
		})
	case "Pipeline":
		l.NotifiedNodes = f.countNodes(func(n *nodeDef) bool {
			k := n.KeepaliveFailureReceivers()
			if k == nil {
				return false
			}
			imported := k.FromAgent && of.Namespace == n.Namespace &&
				slices.ContainsFunc(k.Handlers, func(name string) bool { return model.SensuPipeline(name) == of.Name.Name })
			return imported || containsName(of.Name, n.Namespace, k.Pipelines)
		})
	}
}

// containsName reports whether one resource's list of references contains the name of another resource. The
// references are written in a namespace.
func containsName(of route.Name, namespace string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return splitName(namespace, name) == of })
}

// countNodes counts the nodes for which a function returns true.
func (f inspection) countNodes(fn func(*nodeDef) bool) (nodes int) {
	for _, n := range f.nodes {
		if fn(n.def) {
			nodes++
		}
	}
	return nodes
}
