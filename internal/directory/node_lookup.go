// Package directory is the read side of the planner: names and ids of nodes, groups and units, the
// labels of a node, the nodes of a unit, and the assignment of a node. Package plan writes it.
//
// A Directory holds one immutable snapshot behind an atomic pointer. Readers load the pointer and take
// no lock; a snapshot that a reader holds stays as it is. The planner changes a Draft and publishes it
// after a pass; publishing costs with the number of changed records (see Map). Subscribers then get one
// Change, the list of differences. Start reading at node_lookup.go.
package directory

import (
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/wire"
)

// Directory answers queries about nodes, checks, Templates and assignments from the planner's last published snapshot.
// It does not know deleted nodes and resources. The caller owns returned lists and maps; nobody may change a
// specification. It is safe for concurrent use; readers take no lock.
type Directory struct {
	now atomic.Pointer[snapshot]

	mu          sync.Mutex // guards subscribers
	subscribers []func(Change)
}

var (
	_ Assignments = (*Directory)(nil)
	_ Reader      = (*Directory)(nil)
)

// New returns an empty directory, and the draft of its first snapshot for the planner to fill. The planner
// changes the draft and publishes it.
func New() (*Directory, *Draft) {
	d := &Directory{}
	draft := &Draft{of: d}
	draft.Publish(0)
	return d, draft
}

// Subscribe registers a function to call with each later change of the directory. The function gets the list of
// changes.
func (d *Directory) Subscribe(fn func(Change)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers = append(d.subscribers[:len(d.subscribers):len(d.subscribers)], fn)
}

// Revision returns the revision (version number) of the declared resources in the directory. While the revision stays,
// every answer of the directory stays.
func (d *Directory) Revision() int64 { return d.now.Load().revision }

// NamespaceByName returns the id of a namespace by its name.
func (d *Directory) NamespaceByName(name string) (model.NamespaceID, bool) {
	n := d.now.Load().namespace(name)
	return n.ID, n.ID != 0
}

// namespace looks up the directory's record of a namespace by the namespace's name. It returns an empty record
// for an unknown name.
func (s *snapshot) namespace(name string) Namespace {
	if n := s.namespaces.Value(name); n != nil {
		return *n
	}
	return Namespace{}
}

// NamespaceName returns the name of a namespace by its id.
func (d *Directory) NamespaceName(id model.NamespaceID) (string, bool) {
	return d.now.Load().namespaceNames.Get(id)
}

// NamespaceHandlers returns the handlers that a namespace names for problems of checks without handlers. They are
// notified of problems on its nodes whose check names no handler.
func (d *Directory) NamespaceHandlers(name string) []string {
	return d.now.Load().namespace(name).Handlers
}

// Shadow reports whether a namespace is in shadow mode, in which notifications are recorded but not sent
func (d *Directory) Shadow(namespace string) bool { return d.now.Load().namespace(namespace).Shadow }

// ZabbixNamespaces returns the namespaces that accept values from a Zabbix sender or agent with the given
// network address. The values are about nodes of the namespace.
func ZabbixNamespaces(d *Directory, from netip.Addr) []string {
	return senderNamespaces(d, from, func(n *Namespace) []netip.Prefix { return n.ZabbixFrom })
}

// ZabbixCertificateRequired reports whether Zabbix senders and agents of a namespace need a certificate that names the host.
func ZabbixCertificateRequired(d *Directory, namespace string) bool {
	return d.now.Load().namespace(namespace).ZabbixCertificate
}

// PolledNodes returns the nodes whose Zabbix agent the server polls, ascending.
func PolledNodes(d *Directory) []model.NodeID {
	return nodeIDs(d.now.Load().polled.Value("").bitmap())
}

// RudderNamespaces returns the namespaces that accept reports from a Rudder agent or relay with the given
// network address. The reports are inventories and runs of nodes of the namespace.
func RudderNamespaces(d *Directory, from netip.Addr) []string {
	return senderNamespaces(d, from, func(n *Namespace) []netip.Prefix { return n.RudderFrom })
}

// RudderChangesOnly reports whether Rudder's agents of a namespace report only changes and components that are not compliant.
func RudderChangesOnly(d *Directory, namespace string) bool {
	return d.now.Load().namespace(namespace).RudderChanges
}

// senderNamespaces returns the namespaces whose list of allowed sender networks contains a sender's address.
// Each namespace declares its networks of allowed senders.
func senderNamespaces(d *Directory, from netip.Addr, networks func(*Namespace) []netip.Prefix) (names []string) {
	for _, n := range d.now.Load().withSenders {
		if slices.ContainsFunc(networks(n), func(network netip.Prefix) bool { return network.Contains(from) }) {
			names = append(names, n.Name)
		}
	}
	return names
}

// NodeByName returns the id of a node by its namespace and name.
func (d *Directory) NodeByName(namespace, name string) (model.NodeID, bool) {
	if namespace == model.DefaultNamespaceName && name == model.ServerNodeName {
		return model.ServerNode, true
	}
	return d.now.Load().nodeNames.Get(route.Name{Namespace: namespace, Name: name})
}

// unknownNode is the empty record that stands for every unknown node.
var unknownNode = &Node{}

// Node looks up the directory's record of a node by the node's id. It returns an empty record for an unknown
// node.
func (d *Directory) Node(id model.NodeID) *Node {
	if n := d.now.Load().nodes.Value(id); n.Node != nil {
		return n.Node
	}
	return unknownNode
}

// NodeName returns the namespace and name of a node.
func (d *Directory) NodeName(id model.NodeID) (namespace, name string, ok bool) {
	if id == model.ServerNode {
		return model.DefaultNamespaceName, model.ServerNodeName, true
	}
	n := d.Node(id)
	return n.Namespace, n.Name.Name, n != unknownNode
}

// NodeLabels returns the labels of a node. Declared labels override labels of the agent, and labels of the agent
// override facts.
func (d *Directory) NodeLabels(id model.NodeID) map[string]string {
	if n := d.Node(id); n != unknownNode {
		return n.Labels.Map()
	}
	return nil
}

// NodeFacts returns the facts of a node.
func (d *Directory) NodeFacts(id model.NodeID) map[string]string {
	if n := d.Node(id); n != unknownNode {
		return n.Facts.Map()
	}
	return nil
}

// Nodes returns the ids of all nodes in a namespace, ascending. An empty namespace stands for all namespaces.
func (d *Directory) Nodes(namespace string) []model.NodeID {
	return nodeIDs(d.now.Load().members.Value(namespace).bitmap())
}

// AgentNodeCount returns the number of nodes with an agent, that is, without proxy nodes.
func (d *Directory) AgentNodeCount() int { return d.now.Load().machines }

// NodesMatching returns the nodes of a namespace that match a label selector, ascending. An empty namespace stands for
// all namespaces.
func (d *Directory) NodesMatching(namespace string, s Selector) []model.NodeID {
	now := d.now.Load()
	set := now.members.Value(namespace)
	if set == nil {
		return nil
	}
	return nodeIDs(s.Filter(set.Clone(), now.nodesWithLabel, now.nodesWithLabelKey))
}

// NodeGroups returns the names of a node's groups, with the prefix shared/ for groups of namespace shared
func (d *Directory) NodeGroups(id model.NodeID) (list []string) {
	now := d.now.Load()
	for _, g := range now.nodes.Value(id).Groups {
		list = append(list, now.groupName(g))
	}
	return list
}

// TrustedGroup returns any trusted group of a node (closed to self-joining machines), or an empty text.
// Machines cannot join a trusted group by themselves. The text is empty if the node belongs to no trusted
// group. Not ok: the node is unknown.
func (d *Directory) TrustedGroup(id model.NodeID) (group string, ok bool) {
	now := d.now.Load()
	n, ok := now.nodes.Get(id)
	for _, g := range n.Groups {
		if now.groups.Value(now.groupNames[g]).Trusted {
			group = now.groupName(g)
		}
	}
	return group, ok
}

// GroupMembers returns the ids of the nodes in a group, ascending
func (d *Directory) GroupMembers(namespace, name string) []model.NodeID {
	return nodeIDs(d.now.Load().groups.Value(route.Name{Namespace: namespace, Name: name}).Members)
}

// CheckByName returns the id of a check by its namespace and name. Built-in checks exist in every namespace.
func (d *Directory) CheckByName(namespace, name string) (model.CheckID, bool) {
	if id := model.BuiltinCheckID(name); id != 0 {
		return id, true
	}
	return d.now.Load().unitNames.Get(unitKey{checkKind, route.Name{Namespace: namespace, Name: name}})
}

// UnitByName returns the id of a Template or Directive by its kind, namespace and name.
func (d *Directory) UnitByName(kind, namespace, name string) (model.UnitID, bool) {
	return d.now.Load().unitNames.Get(unitKey{kind, route.Name{Namespace: namespace, Name: name}})
}

// SourceUnit returns the check, Template, Directive or RuleGroup that produced a given problem. It returns nil
// if the source is unknown or built into Muster.
func (d *Directory) SourceUnit(s model.Source) *Unit {
	kind := map[model.SourceKind]string{model.SourceCheck: checkKind, model.SourceTrigger: TemplateKind, model.SourceDirective: DirectiveKind, model.SourceRule: RuleGroupKind}[s.Kind]
	if u := d.now.Load().units.Value(model.UnitID(s.ID)); u.Unit != nil && u.Kind == kind {
		return u.Unit
	}
	return nil
}

// SourceName returns the namespace and name of the check or Template that produced a problem.
func (d *Directory) SourceName(s model.Source) (namespace, name string, ok bool) {
	if s.Kind == model.SourceCheck && s.Check() < model.FirstCheck {
		name = model.BuiltinCheckName(s.Check())
		return model.DefaultNamespaceName, name, name != ""
	}
	u := d.SourceUnit(s)
	if u == nil {
		return "", "", false
	}
	return u.Namespace, u.Name.Name, true
}

// SourceGroups returns the node groups to which the check or Template behind a problem is assigned. A built-in
// check, such as keepalive, targets none.
func (d *Directory) SourceGroups(s model.Source) (list []string) {
	if u := d.SourceUnit(s); u != nil {
		now := d.now.Load()
		for _, g := range u.Groups {
			list = append(list, now.groupName(g))
		}
	}
	return list
}

// NodeUnits returns the ids of the units (checks, Templates and directives) that are assigned to a node, ascending.
func (d *Directory) NodeUnits(node model.NodeID) []model.UnitID {
	return append([]model.UnitID(nil), d.now.Load().nodes.Value(node).Units...)
}

// Override pairs an overridden directive with the directive that runs on the node instead. Both have the same
// technique.
type Override struct{ Unit, By model.UnitID }

// Overridden returns the directives of a node that other directives override, ascending. Such directives have no
// effect.
func Overridden(d *Directory, node model.NodeID) (list []Override) {
	now := d.now.Load()
	n := now.nodes.Value(node)
	technique := func(id model.UnitID) string {
		if u := now.units.Value(id); u.Unit != nil && u.Definition.AsDirective() != nil {
			return u.Definition.AsDirective().Technique
		}
		return ""
	}
	for _, id := range n.Overridden {
		of := technique(id)
		if i := slices.IndexFunc(n.Units, func(by model.UnitID) bool { return technique(by) == of }); of != "" && i >= 0 {
			list = append(list, Override{id, n.Units[i]})
		}
	}
	return list
}

// NodeMode returns the policy mode (audit or enforce) of a node, from the node's properties.
func NodeMode(d *Directory, node model.NodeID) model.NodeMode {
	n := d.now.Load().nodes.Value(node)
	if n.Content == nil {
		return model.NodePolicyModeOf(wire.PropertyLookup(nil))
	}
	return model.NodePolicyModeOf(wire.PropertyLookup(n.Content.Properties))
}

// UnitNodes returns the ids of the nodes to which a check or Template is assigned, ascending. The list has the nodes
// that run the check or Template, and the proxy nodes that its results are about.
func (d *Directory) UnitNodes(unit model.UnitID) []model.NodeID {
	return nodeIDs(d.now.Load().units.Value(unit).Nodes)
}

// RunsUnit reports whether a node runs a check or Template (a unit)
func (d *Directory) RunsUnit(node model.NodeID, unit model.UnitID) bool {
	u := d.now.Load().units.Value(unit)
	return u.Nodes != nil && u.Nodes.Contains(uint32(node))
}

// AssignmentOf returns the assignment of a node, that is, all compiled checks and Templates for its agent. It
// has all compiled checks, Templates and property values that the node's agent gets.
func (d *Directory) AssignmentOf(id model.NodeID) *Assignment {
	n := d.now.Load().nodes.Value(id)
	if n.Content == nil {
		return nil
	}
	return &Assignment{
		Node: id, UID: n.UID, Generation: n.Generation, Hash: n.Content.Hash,
		Definitions: n.Content.Definitions, Properties: n.Content.Properties, Proxied: n.Content.Proxied,
	}
}

// DefinitionOnNode returns a check's or directive's compiled version for one node, old or new during a
// roll-out. During a roll-out the node has either the old or the new version.
func DefinitionOnNode(d *Directory, u *Unit, node model.NodeID) *model.Definition {
	if r := u.Rollout; r != nil && r.Old != r.New {
		if a := d.AssignmentOf(node); a != nil && a.Definition(r.New.ID) != nil {
			return r.New
		}
	}
	return u.Definition
}

// AssignmentVersion returns the revision of the declared resources from which a node's assignment was compiled.
// The version has the revision of the declared resources from which the assignment was compiled. ok is false if
// the node has no assignment.
func (d *Directory) AssignmentVersion(node model.NodeID) (revision uint64, ok bool) {
	n := d.now.Load().nodes.Value(node)
	return n.Generation.Revision, n.Content != nil
}

// Definition returns a compiled check or Template by its definition id. The directory keeps a definition as
// long as the journal or a spool can name it, see Planner.Collect.
func (d *Directory) Definition(id model.DefinitionID) *model.Definition {
	if builtin := model.BuiltinDefinitionOf(id); builtin != nil {
		return &builtin.Definition
	}
	return d.now.Load().definitions.Value(id)
}

// CheckDefinition returns a check's definition, with the rules that turn results into events and problems. The
// alert rules are severities, handlers and route. The result is nil if the definition is unknown.
func (d *Directory) CheckDefinition(id model.DefinitionID, instance string) *model.CheckDefinition {
	return d.Definition(id).EventRules(instance)
}

// Handler returns the specification of a handler.
func (d *Directory) Handler(namespace, name string) (*model.HandlerSpec, bool) {
	return resource[*model.HandlerSpec](d.now.Load(), "Handler", namespace, name)
}

// Secret returns the declaration of a secret, without the secret value. It says where the value is stored.
func (d *Directory) Secret(namespace, name string) (*model.SecretSpec, bool) {
	return resource[*model.SecretSpec](d.now.Load(), "Secret", namespace, name)
}

// StreamHandlers returns the handlers that are declared to receive every check result. Each such handler writes
// a stream of JSON lines.
func (d *Directory) StreamHandlers() map[route.Name]*model.HandlerSpec {
	list := map[route.Name]*model.HandlerSpec{}
	for name, spec := range d.Handlers() {
		if spec.Stream != nil && spec.Stream.Results == model.AllResults {
			list[name] = spec
		}
	}
	return list
}

// Handlers returns all handlers with their names.
func (d *Directory) Handlers() iter.Seq2[route.Name, *model.HandlerSpec] {
	return func(yield func(route.Name, *model.HandlerSpec) bool) {
		for r, spec := range d.now.Load().resources.All() {
			if spec, ok := spec.(*model.HandlerSpec); ok && !yield(r.Name, spec) {
				return
			}
		}
	}
}

// FleetSnapshot is one immutable version of all nodes, directives and groups in the directory. Equal Placements
// are the same version.
type FleetSnapshot struct{ of *snapshot }

// FleetSnapshot returns the present snapshot of all nodes, directives and groups.
func (d *Directory) FleetSnapshot() FleetSnapshot { return FleetSnapshot{d.now.Load()} }

// Definitions returns the number of compiled checks and Templates.
func (p FleetSnapshot) Definitions() int { return p.of.definitions.size }

// Nodes iterates over all nodes with their ids.
func (p FleetSnapshot) Nodes() iter.Seq2[model.NodeID, NodeEntry] { return p.of.nodes.All() }

// NodeName returns the namespace and name of a node.
func (p FleetSnapshot) NodeName(id model.NodeID) (namespace, name string) {
	if n := p.of.nodes.Value(id).Node; n != nil {
		return n.Namespace, n.Name.Name
	}
	return "", ""
}

// Directives returns all directives in the snapshot, keyed by id.
func (p FleetSnapshot) Directives() map[model.UnitID]*Unit {
	directives := map[model.UnitID]*Unit{}
	for id, u := range p.of.units.All() {
		if u.Kind == DirectiveKind && u.Definition.AsDirective() != nil {
			directives[id] = u.Unit
		}
	}
	return directives
}

// GroupName formats the name of a group for messages, with the prefix shared/ for the shared namespace. A group
// of the shared namespace has the prefix shared/.
func (p FleetSnapshot) GroupName(g GroupID) string { return p.of.groupName(g) }

// Change lists what a newly published snapshot of the directory changed, such as assignments and routes.
type Change struct {
	Revision int64 // intent revision of the new snapshot
	// Assignments lists the nodes whose assignment changed, including deleted nodes.
	Assignments []model.NodeID
	// Declarations lists changed resources that the server itself uses for notifications and files: windows, routes,
	// silences, filters, mutators, pipelines and assets.
	Declarations []route.Declaration
	// Dependencies says that checks or triggers depend on others than before (see Directory.Dependencies).
	Dependencies bool
	// Receivers says that a check, node or namespace names other handlers, another route or other pipelines.
	Receivers bool
}

// Reader is the interface by which the API looks up nodes, checks and other records in the Directory. The
// records are nodes, checks, groups, handlers and assignments. It does not know deleted nodes and resources.
// The caller owns returned lists and maps; nobody may change a specification.
type Reader interface {
	NamespaceByName(name string) (model.NamespaceID, bool)
	NamespaceName(id model.NamespaceID) (string, bool)
	NamespaceHandlers(namespace string) []string
	Shadow(namespace string) bool
	NodeByName(namespace, name string) (model.NodeID, bool)
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	Node(id model.NodeID) *Node
	NodeLabels(id model.NodeID) map[string]string
	NodeFacts(id model.NodeID) map[string]string
	NodeGroups(id model.NodeID) []string
	Nodes(namespace string) []model.NodeID
	NodesMatching(namespace string, s Selector) []model.NodeID
	GroupMembers(namespace, name string) []model.NodeID
	CheckByName(namespace, name string) (model.CheckID, bool)
	UnitByName(kind, namespace, name string) (model.UnitID, bool)
	SourceUnit(s model.Source) *Unit
	SourceName(s model.Source) (namespace, name string, ok bool)
	SourceGroups(s model.Source) []string
	NodeUnits(node model.NodeID) []model.UnitID
	UnitNodes(unit model.UnitID) []model.NodeID
	RunsUnit(node model.NodeID, unit model.UnitID) bool
	AssignmentVersion(node model.NodeID) (revision uint64, ok bool)
	Keepalive(node model.NodeID) *model.CheckDefinition
	Handler(namespace, name string) (*model.HandlerSpec, bool)
	Secret(namespace, name string) (*model.SecretSpec, bool)
	StreamHandlers() map[route.Name]*model.HandlerSpec
	Dependencies(node model.NodeID, source model.Source) []route.Dependency
}

// PassiveCheck is a check whose results come from outside, such as alerts of Prometheus, not from an agent. No
// agent runs the check.
type PassiveCheck struct {
	Definition *model.CheckDefinition // definition that judges results now; nil: agents run this check
	Disabled   bool                   // the server refuses results of this check
	Source     string                 // the check's label source: the program that the check was made for; empty: any
}

// RoundRobin is a check that the nodes of a group run in turns, one node in each interval. In each interval one
// member of the group runs the check.
type RoundRobin struct {
	Definition *model.CheckDefinition
	Namespace  string
	Members    *roaring.Bitmap // machines that may run the check, by node id
	// Subjects are the proxy nodes that the check reports about, ascending. Without proxy nodes the list holds the zero
	// ProxyNode alone: each run is about the node that runs the check.
	Subjects []ProxyNode
}

// FilterContext has the records of an event's node and check, as input for imported Sensu filters. Expressions
// imported from Sensu read these records too. Nobody may change them.
type FilterContext struct {
	Node   *Node // nil: unknown
	Runner *Node // the node that ran the check
	Check  *Unit
	Groups []string // groups that the check targets
}

// checkKind is the kind of checks. The results of checks become events.
const checkKind = "Check"

// TemplateKind is the kind of Templates. The triggers of Templates become events.
const TemplateKind = "Template"

// DirectiveKind is the kind of directives. The reports of directives become events.
const DirectiveKind = "Directive"

// RuleGroupKind is the kind of rule groups. The alerts of rule groups become events.
const RuleGroupKind = "RuleGroup"

// groupName formats the name of a group, with the prefix shared/ for groups of namespace shared.
func (s *snapshot) groupName(g GroupID) string { return GroupText(s.groupNames[g]) }

// GroupText formats the name of a group for people, with the prefix shared/ for groups of namespace shared. A
// group of namespace shared gets the text shared/NAME, another group only NAME.
func GroupText(name route.Name) string {
	if name.Namespace == model.SharedNamespaceName {
		return name.Namespace + "/" + name.Name
	}
	return name.Name
}

// unit looks up the directory's record of a check or Template (a unit) by kind and name.
func (s *snapshot) unit(kind string, name route.Name) UnitEntry {
	return s.units.Value(s.unitNames.Value(unitKey{kind, name}))
}

// resource looks up the specification of a declared resource, such as a handler, in a directory snapshot. Such
// resources have no record type of their own in the directory.
func resource[S model.Spec](s *snapshot, kind, namespace, name string) (spec S, ok bool) {
	spec, ok = s.resources.Value(ResourceKey{kind, route.Name{Namespace: namespace, Name: name}}).(S)
	return spec, ok
}

// nodesWithLabel returns the nodes that have a given label and value.
func (s *snapshot) nodesWithLabel(p where.Pair) *roaring.Bitmap { return s.byLabel.Value(p).bitmap() }

// nodesWithLabelKey returns the nodes that have a label with a given key.
func (s *snapshot) nodesWithLabelKey(key unique.Handle[string]) *roaring.Bitmap {
	return s.byLabelKey.Value(key).bitmap()
}

// bitmap returns the bitmap with the node ids of the set, or nil for a missing set. It returns nil for a
// missing set.
func (s *nodeSet) bitmap() *roaring.Bitmap {
	if s == nil {
		return nil
	}
	return s.Bitmap
}

// nodeIDs returns the node ids of a bitmap as a list, ascending.
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
