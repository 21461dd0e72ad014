package directory

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/wire"
)

// GroupID is a number in place of a group's name, valid only in the running process. A number is smaller than a name
// and faster to compare. Every group name that a resource mentions has a number, even if no such group is declared.
type GroupID uint32

// Records of the directory are immutable, so each change makes a new record. Records are of nodes, units, groups and
// namespaces.
type (
	// Namespace is the directory's record of a declared namespace, with its limits and default handlers.
	Namespace struct {
		ID       model.NamespaceID
		Name     string
		Limits   *model.Limits // nil: the server's defaults
		Handlers []string      // notified of problems whose check names no handler
		Zone     string        // time zone of windows and mutes that name none
		Shadow   bool          // notifications are only recorded, not sent

		PolicyMode model.NamespacePolicyMode
		ZabbixFrom []netip.Prefix // networks from which Zabbix senders and agents may send values of its nodes
		// ZabbixCertificate says that they need a certificate that names the host.
		ZabbixCertificate bool
		RudderFrom        []netip.Prefix // networks from which Rudder's agents and relays may send inventories and runs of its nodes
		// RudderChanges says that these agents report only changes and components that are not compliant.
		RudderChanges bool
	}

	// Node has the declared fields of a node, its facts and its agent's data
	Node struct {
		route.Name
		ID          model.NodeID
		UID         uuid.UUID   // immutable id; Nil: the node never enrolled; ProxyUID: a proxy node
		Labels      where.Pairs // of the server, the agent and facts, see EffectiveLabels
		Facts       where.Pairs
		Annotations map[string]string
		Proxy       bool               // the node is a proxy node, without an agent
		External    bool               // an agent of another system runs on the node
		Entity      []byte             // entity of the node's Sensu agent, in Sensu's JSON; nil: none
		Upstream    *Upstream          // the node is unreachable while this check fails; nil: none
		Keepalive   *Keepalive         // receivers of the node's keepalive; nil: the node names none
		ZabbixAgent *model.ZabbixAgent // the server polls this agent; nil: none
	}

	// Upstream names a check on an upstream node, such as a router, through which another node is reached. It
	// is usually the keepalive of the node's router.
	Upstream struct{ Node, Check route.Name }

	// Keepalive has the handlers and pipelines to notify when a node stops sending keepalives (signs of life).
	Keepalive struct {
		*model.KeepaliveReceivers
		FromAgent bool // the node's agent named them: some may not exist
	}

	// NodeEntry is a node with its groups, its assigned checks and Templates, and its compiled assignment.
	NodeEntry struct {
		*Node
		Groups     []GroupID      // ascending
		Units      []model.UnitID // ascending
		Overridden []model.UnitID // directives that select the node, but others of their technique run instead; ascending
		Content    *SharedContent // nil: the node has no assignment
		Generation wire.Generation
	}

	// SharedContent is the part of an assignment that several nodes can share, such as compiled checks. Nodes
	// with equal assignments share one Content.
	SharedContent struct {
		Hash        [32]byte // computed by wire.AssignmentHash
		Definitions []*model.Definition
		Properties  []wire.Property
		Proxied     *ProxyTargets
	}

	// Unit has the declared fields of a check, Template or directive, and its version that agents get now.
	Unit struct {
		route.Name
		ID          model.UnitID
		Kind        string // kind of the declared resource
		Definition  *model.Definition
		DisplayName string // metadata.displayName
		Runbook     string // link to the page with the steps to take when the check fails
		Labels      map[string]string
		Annotations map[string]string
		Groups      []GroupID    // groups that the unit targets
		DependsOn   []route.Name // other units of its kind on the same node
		Passive     bool         // no agent runs the check: its results come from outside
		Disabled    bool
		HasTargets  bool     // the unit may land on nodes
		Proxied     bool     // the check reports about proxy nodes
		Rollout     *Rollout // nil: changes reach all nodes at once
	}

	// Rollout is the gradual roll-out of a changed directive, with its old and its new version.
	Rollout struct {
		model.Rollout
		Old, New *model.Definition // equal while no change is under way
	}

	// UnitEntry is a check or Template together with its assigned nodes. These are the nodes that run it, and the
	// proxy nodes that its results are about.
	UnitEntry struct {
		*Unit
		Nodes *roaring.Bitmap
	}

	// Group is a declared group with its member nodes
	Group struct {
		Members *roaring.Bitmap
		Trusted bool // no machine can bring itself in
	}

	// ResourceKey is the kind, namespace and name by which the directory stores a resource such as a handler.
	ResourceKey struct {
		Kind string
		route.Name
	}

	// unitKey is the key (kind, namespace, name) of a check or Template in the index of names
	unitKey struct {
		kind string
		route.Name
	}
)

// LabelsWithoutFacts returns the labels of a node that operators declared or the agent's settings contain, without
// facts
func (n *Node) LabelsWithoutFacts() map[string]string {
	labels := n.Labels.Map()
	maps.DeleteFunc(labels, func(key, value string) bool {
		fact, measured := n.Facts.Get(key)
		return measured && fact == value
	})
	return labels
}

// SensuName returns the name that a Sensu agent reported for its node. The text is empty if the agent reported no
// name.
func (n *Node) SensuName() string {
	name, _ := n.Facts.Get("sensuEntity")
	return name
}

// KeepaliveFailureReceivers returns the handlers and pipelines to notify when the node stops sending keepalives. It returns nil if the
// node names none. For a Sensu agent that names no handler it returns the handler named keepalive, as Sensu's backend
// does.
func (n *Node) KeepaliveFailureReceivers() *Keepalive {
	k := n.Keepalive
	if k == nil && n.External {
		k = &Keepalive{KeepaliveReceivers: &model.KeepaliveReceivers{}, FromAgent: true}
	}
	if k != nil && k.FromAgent && n.External && len(k.Handlers) == 0 {
		k = &Keepalive{KeepaliveReceivers: &model.KeepaliveReceivers{Handlers: []string{model.KeepaliveCheckName}, Pipelines: k.Pipelines}, FromAgent: true}
	}
	return k
}

// Assignment has the compiled checks, Templates and property values that one node's agent gets. A compiled check or
// Template is a definition. It is immutable; nodes with the same units share the list Definitions.
type Assignment struct {
	Node        model.NodeID
	UID         uuid.UUID
	Generation  wire.Generation
	Hash        [32]byte            // wire.AssignmentHash(Definitions, Properties, Proxied)
	Definitions []*model.Definition // ascending by ID
	Properties  []wire.Property     // ascending by name; only the properties that a definition reads
	Proxied     *ProxyTargets       // proxy nodes of its proxy checks; nil: the node runs no proxy check
}

// Definition returns the compiled check or Template with the given definition id from the assignment. It returns nil
// if the assignment does not have it.
func (a *Assignment) Definition(id model.DefinitionID) *model.Definition {
	at, ok := slices.BinarySearchFunc(a.Definitions, id, func(d *model.Definition, id model.DefinitionID) int { return cmp.Compare(d.ID, id) })
	if !ok {
		return nil
	}
	return a.Definitions[at]
}

// Assignments is the interface by which connections of agents read assignments from the Directory.
type Assignments interface {
	// AssignmentOf returns the present assignment of a node; nil: the node is unknown, or a proxy node.
	AssignmentOf(node model.NodeID) *Assignment
	// Definition resolves an id from the journal, a snapshot or a spool; nil: it is unknown.
	Definition(id model.DefinitionID) *model.Definition
	// Subscribe calls fn after each change, in order and never twice at once. fn must not block.
	Subscribe(fn func(Change))
}

// ProxyTargets lists, for each check of a node's assignment, the proxy nodes about which the check reports. A
// proxy node is a node without an agent. It is immutable; all nodes that run the same units share it.
type ProxyTargets struct {
	wire.ProxyChecks
	nodes  []ProxyNode                     // parallel to list.Nodes
	byUnit map[model.UnitID][]model.NodeID // ascending
}

// ProxyNode has the id, uid and namespace of a proxy node. Journal records contain the same values.
type ProxyNode struct {
	ID        model.NodeID
	UID       uuid.UUID
	Namespace model.NamespaceID
}

// NewProxyTargets returns a table from each compiled check to the proxy nodes about which the check reports. A
// proxy node is a node without an agent. nodes must be the nodes of list, ascending.
func NewProxyTargets(list wire.ProxyChecks, nodes []ProxyNode, definitions []*model.Definition) *ProxyTargets {
	p := &ProxyTargets{ProxyChecks: list, nodes: nodes, byUnit: map[model.UnitID][]model.NodeID{}}
	units := make(map[model.DefinitionID]model.UnitID, len(definitions))
	for _, c := range definitions {
		units[c.ID] = c.Unit
	}
	for _, set := range list.Sets {
		for _, id := range set.Definitions {
			p.byUnit[units[id]] = set.Nodes
		}
	}
	return p
}

// ToWire converts the list of checks with their proxy nodes to a message of the agent protocol. nil stays nil.
func (p *ProxyTargets) ToWire() *wire.ProxyChecks {
	if p == nil {
		return nil
	}
	return &p.ProxyChecks
}

// ProxyNode looks up a proxy node about which a check of the assignment may report results. A check of the
// assignment must be allowed to report results about the node. Not ok: the assignment does not allow its agent
// to report about that node. A source of signals must call ProxyNode before it accepts a result about a node
// other than the sender. The assignment may be nil.
func (a *Assignment) ProxyNode(unit model.UnitID, node model.NodeID) (ProxyNode, bool) {
	if _, ok := slices.BinarySearch(a.ProxyNodes(unit), node); !ok {
		return ProxyNode{}, false
	}
	at, ok := slices.BinarySearchFunc(a.Proxied.nodes, node, func(p ProxyNode, id model.NodeID) int { return cmp.Compare(p.ID, id) })
	if !ok {
		return ProxyNode{}, false
	}
	return a.Proxied.nodes[at], true
}

// ProxyNodes returns the proxy nodes about which one check of the assignment reports results, ascending.
func (a *Assignment) ProxyNodes(unit model.UnitID) []model.NodeID {
	if a == nil || a.Proxied == nil {
		return nil
	}
	return a.Proxied.byUnit[unit]
}

// ProxyUID returns the uid of a proxy node, computed from its id. A proxy node has no certificate with a uid. The id
// decides the node's partition; no certificate can contain it.
func ProxyUID(id model.NodeID) uuid.UUID {
	return uuid.UUID{'p', 'r', 'o', 'x', 'y', 12: byte(id >> 24), 13: byte(id >> 16), 14: byte(id >> 8), 15: byte(id)}
}
