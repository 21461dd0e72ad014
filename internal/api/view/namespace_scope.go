package view

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/route"
)

// namespaceScope is the set of namespaces to which the caller's roles limit an API request. A caller with a
// role in all namespaces has no scope. View.For wraps every store with a scope.
//
// Resources of namespace shared reach all nodes, so definitions of its checks and members of its
// groups are visible, as far as nodes of the scope have them; resources of namespace shared are not.
type namespaceScope struct {
	subject    *access.Subject
	need       access.Need
	namespaces []string // names
}

// includesNamespace reports whether the caller may see a namespace.
func (x *namespaceScope) includesNamespace(namespace string) bool {
	return slices.Contains(x.namespaces, namespace)
}

// showsDefinitionsOf reports whether the caller may see the checks and groups of a namespace. The caller's namespaces
// and "shared" are visible.
func (x *namespaceScope) showsDefinitionsOf(namespace string) bool {
	return namespace == model.SharedNamespaceName || x.includesNamespace(namespace)
}

// includesResource reports whether the caller may see a resource. A resource of kind Namespace lies in the namespace
// of its own name.
func (x *namespaceScope) includesResource(key intent.Key) bool {
	if key.Kind == "Namespace" {
		return x.includesNamespace(key.Name)
	}
	return x.includesNamespace(key.Namespace)
}

// refusalError returns an error for a namespace that is hidden from the caller. The error does not reveal whether the
// namespace exists.
func (x *namespaceScope) refusalError(namespace string) error {
	return x.subject.AllowIn(x.need, namespace)
}

// scopedDirectory is the planner's index of nodes and checks, limited to the namespaces that the caller may see. For
// an invisible node or namespace the wrapped directory is asked for node 0 or for invalidNamespace, which never exist.
type scopedDirectory struct {
	all Directory
	*namespaceScope
}

var _ Directory = scopedDirectory{}

// invalidNamespace is no valid name of a namespace.
const invalidNamespace = "/"

// visibleNamespace returns the given namespace if visible to the caller, or an invalid name that matches
// nothing. For a hidden namespace it returns invalidNamespace, which matches nothing.
func (x *namespaceScope) visibleNamespace(namespace string) string {
	if !x.includesNamespace(namespace) {
		return invalidNamespace
	}
	return namespace
}

// definingNamespace returns the namespace if the caller may see its checks and groups, or an invalid name.
// Otherwise it returns a name that matches nothing.
func (x *namespaceScope) definingNamespace(namespace string) string {
	if !x.showsDefinitionsOf(namespace) {
		return invalidNamespace
	}
	return namespace
}

// visibleNode returns the given node id, or 0 if the node is hidden from the caller.
func (d scopedDirectory) visibleNode(id model.NodeID) model.NodeID {
	if namespace, _, ok := d.all.NodeName(id); !ok || !d.includesNamespace(namespace) {
		return 0
	}
	return id
}

// visibleNodes removes from a list the nodes that the caller may not see.
func (d scopedDirectory) visibleNodes(ids []model.NodeID) []model.NodeID {
	return slices.DeleteFunc(ids, func(id model.NodeID) bool { return d.visibleNode(id) == 0 })
}

// nodesInScope calls the function fn for each visible namespace, and returns all found node ids, sorted. A
// given namespace limits the search.
func (d scopedDirectory) nodesInScope(namespace string, fn func(string) []model.NodeID) (ids []model.NodeID) {
	for _, one := range d.namespaces {
		if namespace == "" || namespace == one {
			ids = append(ids, fn(one)...)
		}
	}
	slices.Sort(ids)
	return ids
}

// NamespaceByName returns the id of the namespace with a given name, if the caller may see the namespace.
func (d scopedDirectory) NamespaceByName(name string) (model.NamespaceID, bool) {
	return d.all.NamespaceByName(d.visibleNamespace(name))
}

// NamespaceName returns the name of the namespace with a given id, if the caller may see the namespace.
func (d scopedDirectory) NamespaceName(id model.NamespaceID) (string, bool) {
	name, ok := d.all.NamespaceName(id)
	if !d.includesNamespace(name) {
		return "", false
	}
	return name, ok
}

// NamespaceHandlers returns the default handlers of a namespace that the caller may see
func (d scopedDirectory) NamespaceHandlers(name string) []string {
	return d.all.NamespaceHandlers(d.visibleNamespace(name))
}

// NodeByName returns the id of the node with a given name, if the caller may see the node.
func (d scopedDirectory) NodeByName(namespace, name string) (model.NodeID, bool) {
	return d.all.NodeByName(d.visibleNamespace(namespace), name)
}

// NodeName returns the name of the node with a given id, if the caller may see the node.
func (d scopedDirectory) NodeName(id model.NodeID) (namespace, name string, ok bool) {
	return d.all.NodeName(d.visibleNode(id))
}

// Node returns the node with a given id, if the caller may see the node.
func (d scopedDirectory) Node(id model.NodeID) *directory.Node { return d.all.Node(d.visibleNode(id)) }

// NodeLabels returns the labels of a node that the caller may see
func (d scopedDirectory) NodeLabels(id model.NodeID) map[string]string {
	return d.all.NodeLabels(d.visibleNode(id))
}

// NodeFacts returns the facts of a node that the caller may see
func (d scopedDirectory) NodeFacts(id model.NodeID) map[string]string {
	return d.all.NodeFacts(d.visibleNode(id))
}

// NodeGroups returns the groups of a node that the caller may see
func (d scopedDirectory) NodeGroups(id model.NodeID) []string {
	return d.all.NodeGroups(d.visibleNode(id))
}

// NodeUnits returns the ids of a node's checks, Templates and policy directives, if the node is visible. For a
// node hidden from the caller, the list is empty.
func (d scopedDirectory) NodeUnits(id model.NodeID) []model.CheckID {
	return d.all.NodeUnits(d.visibleNode(id))
}

// NodeFaults returns the errors that keep checks from running on a node visible to the caller
func (d scopedDirectory) NodeFaults(id model.NodeID) []plan.Fault {
	return d.all.NodeFaults(d.visibleNode(id))
}

// AssignmentVersion returns the version of a node's assignment (list of checks), if the caller may see the
// node.
func (d scopedDirectory) AssignmentVersion(id model.NodeID) (uint64, bool) {
	return d.all.AssignmentVersion(d.visibleNode(id))
}

// RunsUnit reports whether a node runs a check or Template, if the caller may see the node
func (d scopedDirectory) RunsUnit(id model.NodeID, check model.CheckID) bool {
	return d.all.RunsUnit(d.visibleNode(id), check)
}

// Nodes returns the nodes of a namespace that the caller may see.
func (d scopedDirectory) Nodes(namespace string) []model.NodeID {
	return d.nodesInScope(namespace, d.all.Nodes)
}

// NodesMatching returns the nodes that match a selector, limited to the caller's namespaces.
func (d scopedDirectory) NodesMatching(namespace string, s directory.Selector) []model.NodeID {
	return d.nodesInScope(namespace, func(namespace string) []model.NodeID { return d.all.NodesMatching(namespace, s) })
}

// GroupMembers returns the members of a group, limited to the caller's namespaces.
func (d scopedDirectory) GroupMembers(namespace, name string) []model.NodeID {
	return d.visibleNodes(d.all.GroupMembers(d.definingNamespace(namespace), name))
}

// Select returns the nodes that targets select, limited to the caller's namespaces.
func (d scopedDirectory) Select(namespace string, t *model.Targets) ([]model.NodeID, error) {
	if !d.includesNamespace(namespace) {
		return nil, d.refusalError(namespace)
	}
	ids, err := d.all.Select(namespace, t)
	return d.visibleNodes(ids), err
}

// CheckByName finds a check by name that the caller may see, but no built-in check.
func (d scopedDirectory) CheckByName(namespace, name string) (model.CheckID, bool) {
	if !d.showsDefinitionsOf(namespace) {
		return 0, false
	}
	return d.all.CheckByName(namespace, name)
}

// UnitByName finds a Template or Directive by name that the caller may see.
func (d scopedDirectory) UnitByName(kind, namespace, name string) (model.UnitID, bool) {
	if !d.showsDefinitionsOf(namespace) {
		return 0, false
	}
	return d.all.UnitByName(kind, namespace, name)
}

// SourceUnit returns the check or Template behind a problem, if the caller may see the declaration. A
// definition hidden from the caller is nil.
func (d scopedDirectory) SourceUnit(s model.Source) *directory.Unit {
	if u := d.all.SourceUnit(s); u != nil && d.showsDefinitionsOf(u.Namespace) {
		return u
	}
	return nil
}

// SourceName returns the name of a problem's source, such as a check or trigger. A source on the caller's nodes is
// named even if another namespace declares it.
func (d scopedDirectory) SourceName(s model.Source) (namespace, name string, ok bool) {
	if namespace, name, ok = d.all.SourceName(s); !d.showsDefinitionsOf(namespace) && model.BuiltinCheckName(s.Check()) == "" {
		return "", "", false
	}
	return namespace, name, ok
}

// SourceGroups returns the groups that a check or Template visible to the caller targets
func (d scopedDirectory) SourceGroups(s model.Source) []string {
	if _, _, ok := d.SourceName(s); !ok {
		return nil
	}
	return d.all.SourceGroups(s)
}

// ExplainCheck explains why a check is or is not assigned to a node that the caller may see
func (d scopedDirectory) ExplainCheck(id model.NodeID, check model.CheckID) (why plan.Explanation, ok bool) {
	return d.all.ExplainCheck(d.visibleNode(id), check)
}

// ExplainGroups explains the group memberships of a node that the caller may see
func (d scopedDirectory) ExplainGroups(id model.NodeID) []plan.Explanation {
	return d.all.ExplainGroups(d.visibleNode(id))
}

// JoinRequests returns the groups that a node's agent asked to join, if the caller may see the node
func (d scopedDirectory) JoinRequests(id model.NodeID) []plan.JoinRequest {
	return d.all.JoinRequests(d.visibleNode(id))
}

// PropertyOrigins returns a node's properties with their declarations, if the caller may see the node
func (d scopedDirectory) PropertyOrigins(id model.NodeID) []plan.PropertyOrigins {
	return d.all.PropertyOrigins(d.visibleNode(id))
}

// Faults lists, for nodes visible to the caller, the errors that keep checks from running
func (d scopedDirectory) Faults(namespace string) (list []plan.Fault, nodes int) {
	for _, one := range d.namespaces {
		if namespace == "" || namespace == one {
			more, n := d.all.Faults(one)
			list, nodes = append(list, more...), nodes+n
		}
	}
	slices.SortStableFunc(list, func(a, b plan.Fault) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return list, nodes
}

// Keepalive returns the keepalive check of a node, or nil without a visible keepalive check. A node hidden from the
// caller has none.
func (d scopedDirectory) Keepalive(id model.NodeID) *model.CheckDefinition {
	if d.visibleNode(id) == 0 {
		return nil
	}
	return d.all.Keepalive(id)
}

// UnitNodes returns the nodes that run a check or Template, limited to the caller's namespaces.
func (d scopedDirectory) UnitNodes(check model.CheckID) []model.NodeID {
	return d.visibleNodes(d.all.UnitNodes(check))
}

// Handler returns a handler of a namespace that the caller may see
func (d scopedDirectory) Handler(namespace, name string) (*model.HandlerSpec, bool) {
	return d.all.Handler(d.definingNamespace(namespace), name)
}

// Secret returns the declaration of a secret in a namespace that the caller may see
func (d scopedDirectory) Secret(namespace, name string) (*model.SecretSpec, bool) {
	return d.all.Secret(d.visibleNamespace(namespace), name)
}

// Dependencies returns the dependencies (checks whose problems suppress notifications) of a check or trigger on
// a visible node.
func (d scopedDirectory) Dependencies(id model.NodeID, source model.Source) []route.Dependency {
	return d.all.Dependencies(d.visibleNode(id), source)
}

// Shadow reports whether a visible namespace is in shadow mode. In shadow mode, a namespace sends no notifications.
func (d scopedDirectory) Shadow(namespace string) bool {
	return d.all.Shadow(d.visibleNamespace(namespace))
}

// StreamHandlers returns the handlers that receive every result, limited to the caller's namespaces.
func (d scopedDirectory) StreamHandlers() map[route.Name]*model.HandlerSpec {
	out := d.all.StreamHandlers()
	maps.DeleteFunc(out, func(name route.Name, _ *model.HandlerSpec) bool { return !d.showsDefinitionsOf(name.Namespace) })
	return out
}

// Placement returns the number of nodes that a resource affects, if the caller may see the resource
func (d scopedDirectory) Placement(key intent.Key) intent.Placement {
	if !d.includesResource(key) {
		return intent.Placement{}
	}
	return d.all.Placement(key)
}

// scopedEvents reads events, limited to the namespaces that the caller may see.
type scopedEvents struct {
	all       event.Reader
	directory scopedDirectory
	ids       []model.NamespaceID // of the existing namespaces of the scope
}

var _ event.Reader = scopedEvents{}

// newScopedEvents returns a reader of events for a caller with roles in single namespaces only
func newScopedEvents(all event.Reader, directory Directory, x *namespaceScope) scopedEvents {
	e := scopedEvents{all: all, directory: scopedDirectory{directory, x}}
	for _, name := range x.namespaces {
		if id, ok := directory.NamespaceByName(name); ok {
			e.ids = append(e.ids, id)
		}
	}
	return e
}

// includesNamespace reports whether the caller may see a namespace.
func (e scopedEvents) includesNamespace(id model.NamespaceID) bool { return slices.Contains(e.ids, id) }

// boundQuery restricts an event query to the namespaces that the caller may see.
func (e scopedEvents) boundQuery(q event.Query) event.Query {
	if q.Namespaces == nil {
		q.Namespaces = e.ids
	} else {
		q.Namespaces = slices.DeleteFunc(slices.Clone(q.Namespaces), func(id model.NamespaceID) bool { return !e.includesNamespace(id) })
	}
	if len(q.Namespaces) == 0 { // a query with nil would select all namespaces
		q.Nodes = []model.NodeID{}
	}
	return q
}

// Get returns an event that the caller may see
func (e scopedEvents) Get(node model.NodeID, source model.Source) (event.State, bool) {
	st, ok := e.all.Get(node, source)
	if !ok || !e.includesNamespace(st.Namespace) {
		return event.State{}, false
	}
	return st, true
}

// List returns a page of events, limited to the caller's namespaces.
func (e scopedEvents) List(ctx context.Context, q event.Query) (event.Page, error) {
	return e.all.List(ctx, e.boundQuery(q))
}

// OpenProblems calls fn with each open problem of a node that the caller may see.
func (e scopedEvents) OpenProblems(fn func(*model.Problem)) {
	e.all.OpenProblems(func(p *model.Problem) {
		if _, _, ok := e.directory.NodeName(p.NodeID); ok {
			fn(p)
		}
	})
}

// Watch streams changes of events that the caller may see
func (e scopedEvents) Watch(ctx context.Context, q event.Query) (<-chan event.State, error) {
	return e.all.Watch(ctx, e.boundQuery(q))
}

// Counts counts the events of a namespace by status, limited to the caller's namespaces.
func (e scopedEvents) Counts(namespace model.NamespaceID) (sum event.Counts) {
	for _, id := range e.ids {
		if namespace == 0 || namespace == id {
			sum.Add(e.all.Counts(id))
		}
	}
	return sum
}

// CountsByNamespace returns the event counts of the namespaces that the caller may see
func (e scopedEvents) CountsByNamespace() map[model.NamespaceID]event.Counts {
	out := e.all.CountsByNamespace()
	maps.DeleteFunc(out, func(id model.NamespaceID, _ event.Counts) bool { return !e.includesNamespace(id) })
	return out
}

// CountsOf counts a check's events that the caller may see. It counts shared and built-in checks one by one, because
// they have events in other namespaces.
func (e scopedEvents) CountsOf(check model.CheckID) (sum event.Counts) {
	if namespace, _, ok := e.directory.all.SourceName(model.CheckSource(check)); ok && e.directory.includesNamespace(namespace) && model.BuiltinCheckName(check) == "" {
		return e.all.CountsOf(check)
	}
	for st, err := range allEvents(context.Background(), e.all, e.boundQuery(event.Query{Checks: []model.CheckID{check}})) {
		if err != nil {
			return sum
		}
		one := event.Counts{States: 1}
		if one.ByStatus[st.Status&3] = 1; st.Problem != nil {
			one.Problems = 1
		}
		sum.Add(one)
	}
	return sum
}

// Summaries returns the event summaries of nodes, each empty if the caller may not see the node. A node hidden
// from the caller gets an empty summary.
func (e scopedEvents) Summaries(nodes []model.NodeID) []event.Summary {
	out := e.all.Summaries(nodes)
	for i, id := range nodes {
		if e.directory.visibleNode(id) == 0 {
			out[i] = event.Summary{}
		}
	}
	return out
}
