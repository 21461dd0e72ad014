package wire

import (
	"hash"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// ProxyChecks has the proxy nodes of an assignment, and the proxy checks of each.
type ProxyChecks struct {
	Nodes []ProxyNode // ascending by Node
	Sets  []ProxySet
}

// ProxyNode is a node without an agent. Its Properties replace the properties of the node that runs
// the check.
type ProxyNode struct {
	Node       model.NodeID
	Name       string
	Properties []Property // ascending by name
}

// ProxySet runs each of Chunks once for each of Nodes. Both ascend.
type ProxySet struct {
	Chunks []model.ChunkID
	Nodes  []model.NodeID
}

// Empty returns whether there is no proxy check; p may be nil.
func (p *ProxyChecks) Empty() bool { return p == nil || len(p.Nodes)+len(p.Sets) == 0 }

// Equal returns whether both have the same nodes and sets.
func (p *ProxyChecks) Equal(q *ProxyChecks) bool {
	if p.Empty() || q.Empty() {
		return p.Empty() == q.Empty()
	}
	return slices.EqualFunc(p.Nodes, q.Nodes, func(a, b ProxyNode) bool {
		return a.Node == b.Node && a.Name == b.Name && slices.EqualFunc(a.Properties, b.Properties, sameProperty)
	}) && slices.EqualFunc(p.Sets, q.Sets, func(a, b ProxySet) bool {
		return slices.Equal(a.Chunks, b.Chunks) && slices.Equal(a.Nodes, b.Nodes)
	})
}

func sameProperty(a, b Property) bool {
	return a.Name == b.Name && a.Error == b.Error && string(a.Value) == string(b.Value)
}

// CloneProperties returns a copy that aliases no read buffer; nil where the list is empty.
func CloneProperties(list []Property) []Property {
	if len(list) == 0 {
		return nil
	}
	own := slices.Clone(list)
	for i := range own {
		own[i].Value = slices.Clone(own[i].Value)
	}
	return own
}

// Clone returns a copy that aliases no read buffer.
func (p *ProxyChecks) Clone() ProxyChecks {
	own := ProxyChecks{Nodes: slices.Clone(p.Nodes), Sets: slices.Clone(p.Sets)}
	for i := range own.Nodes {
		own.Nodes[i].Properties = CloneProperties(own.Nodes[i].Properties)
	}
	for i := range own.Sets {
		own.Sets[i] = ProxySet{slices.Clone(own.Sets[i].Chunks), slices.Clone(own.Sets[i].Nodes)}
	}
	return own
}

// Size returns the most bytes that all of it adds to an assignment.
func (p *ProxyChecks) Size() (size int) {
	if p.Empty() {
		return 0
	}
	for i := range p.Nodes {
		size += p.Nodes[i].Size()
	}
	for i := range p.Sets {
		size += p.Sets[i].Size()
	}
	return size
}

// Size returns the most bytes that the node adds to an assignment. It must not exceed MaxPart.
func (n *ProxyNode) Size() int {
	size := len(n.Name) + assignedOverhead
	for k := range n.Properties {
		size += PropertySize(&n.Properties[k])
	}
	return size
}

// Size returns the most bytes that the set adds to an assignment.
func (s *ProxySet) Size() int { return assignedOverhead + 5*(len(s.Chunks)+len(s.Nodes)) }

func writeProxied(h hash.Hash, p *ProxyChecks) {
	writeCount(h, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		writeCount(h, int(n.Node))
		writeCount(h, len(n.Name))
		h.Write([]byte(n.Name))
		writeProperties(h, n.Properties)
	}
	writeCount(h, len(p.Sets))
	for i := range p.Sets {
		writeCount(h, len(p.Sets[i].Chunks))
		for _, id := range p.Sets[i].Chunks {
			writeCount(h, int(id))
		}
		writeCount(h, len(p.Sets[i].Nodes))
		for _, id := range p.Sets[i].Nodes {
			writeCount(h, int(id))
		}
	}
}
