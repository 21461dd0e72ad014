package shard

import (
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
)

// Partition has the state of 1/256 of the fleet's nodes, with indexes by node id and namespace. Only its worker
// changes it; readers hold the mutex for microseconds, and call nobody outside the shard and its reducers
// meanwhile. Every method but Lock expects the mutex to be held.
type Partition struct {
	ID    model.Partition
	shard *Shard

	mu sync.Mutex
	at journal.Position // the last commit that touched it

	nodes      []Node
	free       []uint32                       // indexes of removed nodes
	order      []uint32                       // of nodes, by node id: the order of every list and snapshot
	namespaces map[model.NamespaceID][]uint32 // their nodes, by node id

	keepalives expect.Engine    // by node index
	deadlines  []*expect.Engine // by reducer

	tombstones Tombstones[model.NodeID]
	intentMark []byte // last record of the intent and the stores in force, encoded
}

// newPartition returns an empty partition (share of the fleet's nodes).
func newPartition(s *Shard, id model.Partition) *Partition {
	return &Partition{shard: s, ID: id, namespaces: map[model.NamespaceID][]uint32{}}
}

// Lock takes the partition's mutex.
func (p *Partition) Lock() { p.mu.Lock() }

// Unlock releases the partition's mutex
func (p *Partition) Unlock() { p.mu.Unlock() }

// Node returns the node at an index in the partition. The pointer is valid until a node is added.
func (p *Partition) Node(n uint32) *Node { return &p.nodes[n] }

// SortedNodes returns the indexes of all nodes, sorted by node id. The slice belongs to the partition and must not be kept.
func (p *Partition) SortedNodes() []uint32 { return p.order }

// AffectedNodes returns the indexes of the nodes that a removal record in the journal concerns. They are node
// n, no node for NoNode, or all nodes if the record has no node id. The slice must not be kept.
func (p *Partition) AffectedNodes(id model.NodeID, n uint32) []uint32 {
	switch {
	case id == 0:
		return p.order
	case n == NoNode:
		return nil
	}
	return []uint32{n}
}

// Find returns the index of a node in the partition by the node's id
func (p *Partition) Find(id model.NodeID) (n uint32, ok bool) {
	at, ok := p.Search(p.order, id)
	if !ok {
		return NoNode, false
	}
	return p.order[at], true
}

// Search returns the index of a node in a list sorted by node id. It also reports whether the list contains the
// node.
func (p *Partition) Search(list []uint32, id model.NodeID) (at int, ok bool) {
	low, high := 0, len(list)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if p.nodes[list[mid]].ID < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(list) && p.nodes[list[low]].ID == id
}

// AddNode adds a new node to the partition and returns its index. The worker calls it, and an applier whose record
// may speak of a new node.
func (p *Partition) AddNode(id model.NodeID, ns model.NamespaceID) (n uint32) {
	at, found := p.Search(p.order, id)
	if found {
		panic("BUG: node added twice")
	}
	if last := len(p.free); last > 0 {
		n = p.free[last-1]
		p.free = p.free[:last-1]
	} else {
		p.nodes = append(p.nodes, Node{})
		n = uint32(len(p.nodes) - 1)
	}
	p.nodes[n] = Node{ID: id, Namespace: ns}
	p.order = slices.Insert(p.order, at, n)
	p.joinNamespace(n)
	p.shard.places.set(id, p.ID)
	for _, r := range p.shard.reducers {
		r.AddNode(p, n)
	}
	return n
}

// RemoveNode removes a node from the partition, together with every reducer's state of the node.
func (p *Partition) RemoveNode(n uint32) {
	for _, r := range p.shard.reducers {
		r.RemoveNode(p, n)
	}
	p.keepalives.Clear(n)
	at, _ := p.Search(p.order, p.nodes[n].ID)
	p.order = slices.Delete(p.order, at, at+1)
	p.leaveNamespace(n)
	p.shard.places.remove(p.nodes[n].ID)
	p.nodes[n] = Node{}
	p.free = append(p.free, n)
}

// Node is the state of a node that all reducers share, such as its keepalive. Reducers read the exported fields and
// never write them.
type Node struct {
	ID        model.NodeID
	Namespace model.NamespaceID
	LastSeen  int64 // receive time of the last heartbeat, Unix ns; zero: never
	Timeout   int64 // of its keepalive, ns; zero: it has none
	Warning   int64 // silence after which its keepalive warns, ns; zero: it does not
	silence   int64 // silence that its keepalive reported last, ns; zero: none

	BacklogUntil int64 // listening time until which deadlines wait for the backlog; zero: they do not

	session uint64
	backlog uint64           // signals of the backlog lane still to come
	streams []streamSequence // oldest use first

	Keepalive       KeepaliveState
	Stopped         bool // by a planned end: its deadlines wait until it comes back
	EveryKeepalive  bool // pipelines evaluate each of its keepalives, and each repetition of a silence
	awaitsHeartbeat bool // a deadline may wait for a heartbeat: see Worker.Postpone
}

// KeepaliveState is the state of a node's keepalive, such as received or missed
type KeepaliveState uint8

const (
	KeepaliveNone     KeepaliveState = iota // none is supervised
	KeepaliveReceived                       // in time, or the node stopped by a planned end
	KeepaliveWarned                         // overdue by the warning time
	KeepaliveCritical                       // overdue by the time-out
	keepaliveStates
)

// keepaliveTimeout returns how long a node may be silent before its keepalive changes, in nanoseconds.
func (n *Node) keepaliveTimeout() int64 {
	if n.Warning > 0 {
		return n.Warning
	}
	return n.Timeout
}

// millisToNanos converts milliseconds to nanoseconds.
func millisToNanos(ms uint32) int64 { return int64(ms) * int64(time.Millisecond) }

// NamespaceNodes returns the indexes of a namespace's nodes in the partition, sorted by node id. It is nil without such
// nodes. The slice belongs to the partition and must not be kept.
func (p *Partition) NamespaceNodes(ns model.NamespaceID) []uint32 { return p.namespaces[ns] }

// MoveNode moves a node to another namespace.
func (p *Partition) MoveNode(n uint32, ns model.NamespaceID) {
	from := p.nodes[n].Namespace
	p.leaveNamespace(n)
	p.nodes[n].Namespace = ns
	p.joinNamespace(n)
	for _, r := range p.shard.reducers {
		r.MoveNode(p, n, from)
	}
}

// joinNamespace adds a node to the list of its namespace's nodes
func (p *Partition) joinNamespace(n uint32) {
	ns := p.nodes[n].Namespace
	list := p.namespaces[ns]
	at, _ := p.Search(list, p.nodes[n].ID)
	p.namespaces[ns] = slices.Insert(list, at, n)
}

// leaveNamespace removes a node from the list of its namespace's nodes. An empty list is removed, too.
func (p *Partition) leaveNamespace(n uint32) {
	ns := p.nodes[n].Namespace
	list := p.namespaces[ns]
	at, _ := p.Search(list, p.nodes[n].ID)
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(p.namespaces, ns)
	} else {
		p.namespaces[ns] = list
	}
}
