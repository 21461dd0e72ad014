package wire

import "slices"

// Parts splits an assignment into messages that each fit a frame: the lists in order, everything
// else and the signature in the last one. A small one is its only part.
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
	for i := range a.Proxied.Nodes {
		room(a.Proxied.Nodes[i].Size())
		part.Proxied.Nodes = append(part.Proxied.Nodes, a.Proxied.Nodes[i])
	}
	for i := range a.Proxied.Sets {
		room(a.Proxied.Sets[i].Size())
		part.Proxied.Sets = append(part.Proxied.Sets, a.Proxied.Sets[i])
	}
	last := *a
	last.Add, last.Properties, last.Proxied = part.Add, part.Properties, part.Proxied
	return append(parts, &last)
}

func (a *Assignment) emptyPart() *Assignment {
	return &Assignment{Generation: a.Generation, Hash: a.Hash, More: true}
}

// Partial collects the parts of one assignment. It owns its memory: parts alias read buffers.
type Partial struct {
	sum  Assignment
	size int
}

// Join returns the whole assignment with its last part; nil before that. Parts of another
// assignment, and more than MaxAssignment of one, replace the parts collected before.
func (p *Partial) Join(a *Assignment) *Assignment {
	if p.size > 0 && (p.sum.Hash != a.Hash || p.sum.Generation != a.Generation || p.size > MaxAssignment) {
		*p = Partial{}
	}
	if !a.More {
		if p.size > 0 {
			a.Add, a.Properties = append(p.sum.Add, a.Add...), append(p.sum.Properties, a.Properties...)
			a.Proxied.Nodes = append(p.sum.Proxied.Nodes, a.Proxied.Nodes...)
			a.Proxied.Sets = append(p.sum.Proxied.Sets, a.Proxied.Sets...)
			*p = Partial{}
		}
		return a
	}
	p.sum.Generation, p.sum.Hash = a.Generation, a.Hash
	for _, c := range a.Add {
		p.size += ChunkSize(len(c.Body))
		p.sum.Add = append(p.sum.Add, AssignedChunk{ID: c.ID, Body: slices.Clone(c.Body)})
	}
	for i := range a.Properties {
		x := a.Properties[i]
		p.size += PropertySize(&x)
		x.Value = slices.Clone(x.Value)
		p.sum.Properties = append(p.sum.Properties, x)
	}
	proxied := a.Proxied.Clone()
	p.size += proxied.Size()
	p.sum.Proxied.Nodes = append(p.sum.Proxied.Nodes, proxied.Nodes...)
	p.sum.Proxied.Sets = append(p.sum.Proxied.Sets, proxied.Sets...)
	return nil
}
