package directory

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

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
