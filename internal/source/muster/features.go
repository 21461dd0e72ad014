package muster

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// chunkKinds is the set of chunk kinds, below 64, that an agent understands by Hello.Features.
type chunkKinds uint64

func chunkKindsOf(features []string) (set chunkKinds) {
	for kind := model.ChunkKind(1); kind < 64; kind++ {
		if slices.Contains(features, wire.ChunkFeature(kind)) {
			set |= 1 << kind
		}
	}
	return set
}

func (s chunkKinds) has(kind model.ChunkKind) bool { return s>>kind&1 == 1 }

func (s chunkKinds) lacks(c *model.Chunk) bool { return !s.has(c.Kind) }

// reduce returns the part of an assignment that an agent understands: the shared one itself where
// it understands all. Properties and proxy nodes stay whole.
func (s chunkKinds) reduce(a *directory.Assignment) *directory.Assignment {
	if a == nil || !slices.ContainsFunc(a.Chunks, s.lacks) {
		return a
	}
	part := *a
	part.Chunks = slices.DeleteFunc(slices.Clone(a.Chunks), s.lacks)
	var proxied *wire.ProxyChecks
	if a.Proxied != nil {
		proxied = &a.Proxied.ProxyChecks
	}
	part.Hash = wire.AssignmentHash(part.Chunks, part.Properties, proxied)
	return &part
}

// assignment returns the part of the node's assignment that the agent of this session understands,
// and the number of units left out of it; nil: the node has none.
func (x *session) assignment() (part *directory.Assignment, left int) {
	whole := x.srv.cfg.Assignments.For(x.node.ID)
	if part = x.about.kinds.reduce(whole); part != whole {
		left = len(whole.Chunks) - len(part.Chunks)
	}
	return part, left
}

// IdleUnit is a unit of a node's assignment that its agent does not have in force.
type IdleUnit struct {
	Unit   model.UnitID
	Name   string
	Reason string
}

// idleUnits lists the units that were left out because the agent does not understand them, and
// those that it refused.
func (x *session) idleUnits() (list []IdleUnit) {
	want := x.srv.cfg.Assignments.For(x.node.ID)
	if want == nil {
		return nil
	}
	for _, c := range want.Chunks {
		if x.about.kinds.lacks(c) {
			list = append(list, IdleUnit{c.Unit, c.Name, fmt.Sprintf("the agent (version %s) does not understand chunks of kind %d: update it", x.about.version.Value(), c.Kind)})
		}
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	for _, r := range x.refusedChunks {
		if at := slices.IndexFunc(want.Chunks, func(c *model.Chunk) bool { return c.ID == r.Chunk }); at >= 0 {
			c := want.Chunks[at]
			list = append(list, IdleUnit{c.Unit, c.Name, "the agent refuses it: " + r.Reason})
		}
	}
	return list
}
