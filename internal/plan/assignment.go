package plan

import (
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Assignment is what one node should hold. It is immutable; Chunks is shared by all
// nodes that run the same set.
type Assignment struct {
	Node       model.NodeID
	UID        uuid.UUID
	Generation wire.Generation
	Hash       [32]byte        // wire.AssignmentHash(Chunks, Properties, Proxied)
	Chunks     []*model.Chunk  // ascending by ID
	Properties []wire.Property // ascending by name; only those that some chunk names
	Proxied    *Proxied        // whom its proxy checks speak of; nil: it has none
}

// Assignments is what sessions need of the planner.
type Assignments interface {
	// For returns the present assignment of a node; nil if the node is unknown.
	For(node model.NodeID) *Assignment
	// Chunk resolves an id that the journal, a snapshot or a spool named; nil if unknown.
	Chunk(id model.ChunkID) *model.Chunk
	// Subscribe calls fn, in one goroutine and in order, with the nodes whose
	// assignment changed. fn must not block for long.
	Subscribe(fn func(changed []model.NodeID))
}
