package directory

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/wire"
)

// GroupID is the number of a group's name within this process: smaller and faster to compare than the
// name. A name that a resource mentions has one, whether or not the group is declared.
type GroupID uint32

// Records are immutable: a changed thing gets a new record.
type (
	// Namespace is a declared namespace.
	Namespace struct {
		ID       model.NamespaceID
		Name     string
		Limits   *model.Limits // nil: the server's defaults
		Handlers []string      // notified of problems that name no handler
		Zone     string        // of windows and mutes without a zone
		Shadow   bool          // nothing is sent
	}

	// Node is the declared part of a node.
	Node struct {
		route.Name
		ID          model.NodeID
		UID         uuid.UUID   // Nil: it never enrolled; ProxyUID: a proxy node
		Labels      where.Pairs // of server, agent and facts, see EffectiveLabels
		Facts       where.Pairs
		Annotations map[string]string
		Proxy       bool       // no agent runs on it
		External    bool       // another system's agent runs on it
		Upstream    *Upstream  // the node is unreachable while its upstream is down; nil: none
		Keepalive   *Keepalive // receivers of its keepalive; nil: none is named
	}

	// Upstream is a check on another node, usually the keepalive of a router.
	Upstream struct{ Node, Check route.Name }

	// Keepalive names the receivers of a node's keepalive.
	Keepalive struct {
		*model.KeepaliveReceivers
		FromAgent bool // the agent named them: some may not exist
	}

	// PlacedNode is a node with its groups, units and assignment.
	PlacedNode struct {
		*Node
		Groups     []GroupID      // ascending
		Units      []model.UnitID // ascending
		Content    *Content       // nil: the node has no assignment
		Generation wire.Generation
	}

	// Content is the part of an assignment that nodes share.
	Content struct {
		Hash       [32]byte // wire.AssignmentHash
		Chunks     []*model.Chunk
		Properties []wire.Property
		Proxied    *ProxyTargets
	}

	// Unit is the declared part of a unit, with the chunk in force.
	Unit struct {
		route.Name
		ID          model.UnitID
		Kind        string // of the resource
		Chunk       *model.Chunk
		Labels      map[string]string
		Annotations map[string]string
		Groups      []GroupID    // that it targets
		DependsOn   []route.Name // units of its kind on the same node
		Passive     bool         // no agent runs it: its results come from outside
		Disabled    bool
		HasTargets  bool // it may land on nodes
		Proxied     bool // it is about proxy nodes
	}

	// PlacedUnit is a unit with its nodes: those that run it, and the proxy nodes that it is about.
	PlacedUnit struct {
		*Unit
		Nodes *roaring.Bitmap
	}

	// Group is a group with its members.
	Group struct {
		Members *roaring.Bitmap
		Trusted bool // no machine can bring itself in
	}

	// Resource names a resource without a record of its own, such as a handler.
	Resource struct {
		Kind string
		route.Name
	}

	unitName struct {
		kind string
		route.Name
	}
)

// Receivers returns the receivers of the node's keepalive; nil: none is named. An agent of Sensu that
// names no handler means the handler keepalive, as with Sensu's backend.
func (n *Node) Receivers() *Keepalive {
	k := n.Keepalive
	if k == nil && n.External {
		k = &Keepalive{KeepaliveReceivers: &model.KeepaliveReceivers{}, FromAgent: true}
	}
	if k != nil && k.FromAgent && n.External && len(k.Handlers) == 0 {
		k = &Keepalive{KeepaliveReceivers: &model.KeepaliveReceivers{Handlers: []string{model.KeepaliveCheckName}, Pipelines: k.Pipelines}, FromAgent: true}
	}
	return k
}

// Assignment is all chunks and property values of one node. It is immutable; nodes with the same units
// share Chunks.
type Assignment struct {
	Node       model.NodeID
	UID        uuid.UUID
	Generation wire.Generation
	Hash       [32]byte        // wire.AssignmentHash(Chunks, Properties, Proxied)
	Chunks     []*model.Chunk  // ascending by ID
	Properties []wire.Property // ascending by name; only those that a chunk names
	Proxied    *ProxyTargets   // targets of its proxy checks; nil: it has none
}

// Assignments is the part of the Directory that sessions read.
type Assignments interface {
	// For returns the present assignment of a node; nil: the node is unknown, or a proxy node.
	For(node model.NodeID) *Assignment
	// Chunk resolves an id from the journal, a snapshot or a spool; nil: it is unknown.
	Chunk(id model.ChunkID) *model.Chunk
	// Subscribe calls fn after each change, in order and never twice at once. fn must not block.
	Subscribe(fn func(Change))
}

// ProxyTargets lists the proxy nodes that the proxy checks of an assignment report about. Immutable, and
// shared by all nodes that run the same units.
type ProxyTargets struct {
	wire.ProxyChecks
	nodes  []ProxyNode                     // as Nodes
	byUnit map[model.UnitID][]model.NodeID // ascending
}

// ProxyNode is the address of a proxy node in the journal.
type ProxyNode struct {
	ID        model.NodeID
	UID       uuid.UUID
	Namespace model.NamespaceID
}

// NewProxyTargets indexes the proxy nodes of an assignment with these chunks. nodes must ascend
// and be the nodes of list.
func NewProxyTargets(list wire.ProxyChecks, nodes []ProxyNode, chunks []*model.Chunk) *ProxyTargets {
	p := &ProxyTargets{ProxyChecks: list, nodes: nodes, byUnit: map[model.UnitID][]model.NodeID{}}
	units := make(map[model.ChunkID]model.UnitID, len(chunks))
	for _, c := range chunks {
		units[c.ID] = c.Unit
	}
	for _, set := range list.Sets {
		for _, id := range set.Chunks {
			p.byUnit[units[id]] = set.Nodes
		}
	}
	return p
}

// Wire returns the list as an agent gets it; nil for nil.
func (p *ProxyTargets) Wire() *wire.ProxyChecks {
	if p == nil {
		return nil
	}
	return &p.ProxyChecks
}

// ProxyNode returns the proxy node that a result of a unit is about. Not ok: the assignment does not
// allow its holder to report about that node. It works on a nil assignment. Every source must ask
// before it takes a result about a node that is not the sender.
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

// ProxyNodes returns the proxy nodes that a unit of the assignment is about, ascending.
func (a *Assignment) ProxyNodes(unit model.UnitID) []model.NodeID {
	if a == nil || a.Proxied == nil {
		return nil
	}
	return a.Proxied.byUnit[unit]
}

// ProxyUID replaces the immutable id of a machine for a proxy node: it decides the node's partition,
// and no certificate can carry it.
func ProxyUID(id model.NodeID) uuid.UUID {
	return uuid.UUID{'p', 'r', 'o', 'x', 'y', 12: byte(id >> 24), 13: byte(id >> 16), 14: byte(id >> 8), 15: byte(id)}
}
