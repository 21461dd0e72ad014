package directory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Look-ups that only concern units of kind Check.

// PassiveCheck looks up by name a passive check, whose results come from outside instead of an agent. The
// results of a passive check come from outside, such as alerts. ok is false if the namespace has no such check.
// The Definition is nil if agents run the check.
func (d *Directory) PassiveCheck(namespace, name string) (c PassiveCheck, ok bool) {
	u := d.now.Load().unit(checkKind, route.Name{Namespace: namespace, Name: name})
	if u.Unit == nil {
		return c, false
	}
	if u.Passive {
		c.Definition = u.Definition.AsCheck()
	}
	c.Disabled, c.Source = u.Disabled, u.Labels[model.SourceLabel]
	return c, true
}

// PassiveChecks returns the passive checks of a namespace that accept results from one sender, such as
// Alertmanager. Their results come from outside, such as alerts. An empty sender stands for all senders.
func (d *Directory) PassiveChecks(namespace, source string) (ids []model.CheckID) {
	for id, u := range d.now.Load().units.All() {
		if u.Passive && (namespace == "" || u.Namespace == namespace) && (source == "" || u.Labels[model.SourceLabel] == source) {
			ids = append(ids, id)
		}
	}
	return ids
}

// AssignedDefinition returns the compiled definition of a check or directive from the assignment of a node. It is nil
// if the node does not run the check or directive.
func AssignedDefinition(d *Directory, node model.NodeID, unit model.UnitID) *model.Definition {
	if a := d.AssignmentOf(node); a != nil {
		if i := slices.IndexFunc(a.Definitions, func(c *model.Definition) bool { return c.Unit == unit }); i >= 0 {
			return a.Definitions[i]
		}
	}
	return nil
}

// UnitsOf returns all declared checks, Templates, directives or rule groups (one kind), sorted by namespace and
// name.
func UnitsOf(d *Directory, kind string) (list []*Unit) {
	for _, u := range d.now.Load().units.All() {
		if u.Kind == kind {
			list = append(list, u.Unit)
		}
	}
	slices.SortFunc(list, func(a, b *Unit) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name.Name, b.Name.Name))
	})
	return list
}

// RoundRobins returns the round-robin checks with at least one assigned node, sorted by id. In each interval one
// member of a group runs such a check.
func (d *Directory) RoundRobins() (list []RoundRobin) {
	now := d.now.Load()
	for _, u := range now.units.All() {
		c := u.Definition.AsCheck()
		if c == nil || !c.RoundRobin || !u.HasTargets {
			continue
		}
		r := RoundRobin{Definition: c, Namespace: u.Namespace, Members: roaring.New()}
		for _, id := range nodeIDs(u.Nodes) {
			switch n := now.nodes.Value(id); {
			case n.Node == nil:
			case n.Proxy:
				r.Subjects = append(r.Subjects, ProxyNode{ID: id, UID: n.UID, Namespace: now.namespace(n.Namespace).ID})
			default:
				r.Members.Add(uint32(id))
			}
		}
		if !u.Proxied {
			r.Subjects = []ProxyNode{{}}
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b RoundRobin) int { return cmp.Compare(a.Definition.Unit, b.Definition.Unit) })
	return list
}

// FilterContext returns the records of an event's node and check, for filter expressions imported from Sensu.
// Expressions imported from Sensu read these records too.
func (d *Directory) FilterContext(node, runner model.NodeID, check model.CheckID) (c FilterContext) {
	now := d.now.Load()
	c.Node, c.Runner, c.Check = now.nodes.Value(node).Node, now.nodes.Value(runner).Node, now.units.Value(check).Unit
	if c.Check != nil {
		for _, g := range c.Check.Groups {
			c.Groups = append(c.Groups, now.groupName(g))
		}
	}
	return c
}

// Keepalive returns the keepalive check of a node, with the handlers and pipelines that the node names. Names that
// come from the node's agent count only if the resources exist. A handler that reads Sensu's events is replaced by the
// pipeline that the import made for it.
func (d *Directory) Keepalive(id model.NodeID) *model.CheckDefinition {
	c := model.BuiltinDefinitionOf(model.BuiltinDefinitionID(model.KeepaliveCheck))
	now := d.now.Load()
	n := now.nodes.Value(id).Node
	if n == nil {
		return c
	}
	k, namespace := n.KeepaliveFailureReceivers(), now.namespaces.Value(n.Namespace)
	if k == nil || namespace == nil {
		return c
	}
	if !k.FromAgent {
		c.Namespace, c.Handlers, c.Pipelines = namespace.ID, k.Handlers, k.Pipelines
		return c
	}
	exists := func(kind, name string) bool {
		_, ok := now.resources.Get(ResourceKey{kind, route.Name{Namespace: n.Namespace, Name: name}})
		return ok
	}
	for _, name := range k.Pipelines {
		if exists("Pipeline", name) {
			c.Pipelines = append(c.Pipelines, name)
		}
	}
	for _, name := range k.Handlers {
		if imported := model.SensuPipeline(name); exists("Pipeline", imported) {
			if !slices.Contains(c.Pipelines, imported) {
				c.Pipelines = append(c.Pipelines, imported)
			}
		} else if exists("Handler", name) {
			c.Handlers = append(c.Handlers, name)
		}
	}
	if len(c.Pipelines)+len(c.Handlers) > 0 {
		c.Namespace = namespace.ID
	}
	return c
}

// These bounds limit the number of a problem's dependencies, and the wait for a dependency's failure.
const (
	maxDependencies = 32
	maxSettle       = 2 * time.Minute
)

// Dependencies lists the checks and triggers whose failure explains a problem of a check on a node. The checks of
// upstream nodes come first, the farthest node before the nearer ones, then the checks that dependsOn names. For a
// trigger dependsOn names triggers. It leaves out checks and triggers that do not exist.
func (d *Directory) Dependencies(node model.NodeID, source model.Source) (list []route.Dependency) {
	now := d.now.Load()
	n := now.nodes.Value(node).Node
	if n == nil {
		return nil
	}
	for at := n; at.Upstream != nil && len(list) < maxDependencies; {
		upstream := now.nodes.Value(now.nodeNames.Value(at.Upstream.Node)).Node
		if upstream == nil {
			break
		}
		if m, ok := now.dependency(upstream, at.Upstream.Check); ok {
			m.OnUpstream = true
			list = append(list, m)
		}
		at = upstream
	}
	slices.Reverse(list)
	u := now.units.Value(model.UnitID(source.ID))
	if u.Unit == nil || source.Kind != model.SourceCheck && source.Kind != model.SourceTrigger {
		return list
	}
	if template := u.Definition.AsTemplate(); template != nil {
		for _, name := range template.Dependencies(source.Instance) {
			on := model.TriggerSource(u.ID, name)
			list = append(list, route.Dependency{Node: node, Source: on, Name: route.Name{Namespace: n.Namespace, Name: n.Name.Name + "/" + on.CommandName(u.Name.Name)}})
		}
		return list
	}
	for todo := slices.Clone(u.DependsOn); len(todo) > 0 && len(list) < maxDependencies; todo = todo[1:] {
		m, ok := now.dependency(n, todo[0])
		if !ok || m.Source == source || slices.ContainsFunc(list, func(x route.Dependency) bool { return x.Node == node && x.Source == m.Source }) {
			continue
		}
		list = append(list, m)
		if next := now.units.Value(model.UnitID(m.Source.ID)); next.Unit != nil {
			todo = append(todo, next.DependsOn...)
		}
	}
	return list
}

// dependency describes a check on a node as an entry in the list of another check's dependencies. It returns
// false if the check does not exist.
func (s *snapshot) dependency(node *Node, check route.Name) (route.Dependency, bool) {
	m := route.Dependency{Node: node.ID, Name: route.Name{Namespace: node.Namespace, Name: node.Name.Name + "/" + check.Name}, Settle: maxSettle}
	if id := model.BuiltinCheckID(check.Name); id != 0 {
		m.Source = model.CheckSource(id)
		return m, true
	}
	u := s.unit(checkKind, check)
	if u.Unit == nil {
		return m, false
	}
	m.Source = model.CheckSource(u.ID)
	if c := u.Definition.AsCheck(); c != nil && c.Interval > 0 {
		m.Settle = min(maxSettle, c.Interval*time.Duration(max(1, c.FailAfter))+c.Timeout)
	}
	return m, true
}
