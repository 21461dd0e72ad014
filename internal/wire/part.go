package wire

import "slices"

// Parts splits an assignment into messages that each fit a frame: the lists in order, all other fields
// and the signature in the last one. A small assignment is its only part.
func (a *Assignment) Parts() (parts []*Assignment) {
	part := a.emptyPart()
	size := 0
	room := func(n int) {
		if size += n; size > MaxPart && size > n {
			parts = append(parts, part)
			part, size = a.emptyPart(), n
		}
	}
	for i := range a.Add {
		room(ChunkSize(len(a.Add[i].Body)))
		part.Add = append(part.Add, a.Add[i])
	}
	for i := range a.Properties {
		room(PropertySize(&a.Properties[i]))
		part.Properties = append(part.Properties, a.Properties[i])
	}
	for i := range a.ProxyChecks.Nodes {
		room(a.ProxyChecks.Nodes[i].Size())
		part.ProxyChecks.Nodes = append(part.ProxyChecks.Nodes, a.ProxyChecks.Nodes[i])
	}
	for i := range a.ProxyChecks.Sets {
		room(a.ProxyChecks.Sets[i].Size())
		part.ProxyChecks.Sets = append(part.ProxyChecks.Sets, a.ProxyChecks.Sets[i])
	}
	last := *a
	last.Add, last.Properties, last.ProxyChecks = part.Add, part.Properties, part.ProxyChecks
	return append(parts, &last)
}

func (a *Assignment) emptyPart() *Assignment {
	return &Assignment{Generation: a.Generation, Hash: a.Hash, More: true}
}

// PartialAssignment collects the parts of one assignment. It copies them, because they alias read buffers.
type PartialAssignment struct {
	sum  Assignment
	size int
}

// Join returns the whole assignment with its last part; nil before that. Parts of another
// assignment, and more than MaxAssignment of one, replace the parts collected before.
func (p *PartialAssignment) Join(a *Assignment) *Assignment {
	if p.size > 0 && (p.sum.Hash != a.Hash || p.sum.Generation != a.Generation || p.size > MaxAssignment) {
		*p = PartialAssignment{}
	}
	if !a.More {
		if p.size > 0 {
			a.Add, a.Properties = append(p.sum.Add, a.Add...), append(p.sum.Properties, a.Properties...)
			a.ProxyChecks.Nodes = append(p.sum.ProxyChecks.Nodes, a.ProxyChecks.Nodes...)
			a.ProxyChecks.Sets = append(p.sum.ProxyChecks.Sets, a.ProxyChecks.Sets...)
			*p = PartialAssignment{}
		}
		return a
	}
	p.sum.Generation, p.sum.Hash = a.Generation, a.Hash
	for _, c := range a.Add {
		p.size += ChunkSize(len(c.Body))
		p.sum.Add = append(p.sum.Add, AssignedChunk{ID: c.ID, Body: slices.Clone(c.Body)})
	}
	for i := range a.Properties {
		p.size += PropertySize(&a.Properties[i])
	}
	p.sum.Properties = append(p.sum.Properties, CloneProperties(a.Properties)...)
	proxied := a.ProxyChecks.Clone()
	p.size += proxied.Size()
	p.sum.ProxyChecks.Nodes = append(p.sum.ProxyChecks.Nodes, proxied.Nodes...)
	p.sum.ProxyChecks.Sets = append(p.sum.ProxyChecks.Sets, proxied.Sets...)
	return nil
}
