package model

import (
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
)

// Numeric ids are given once by the intent store and never used again. The wire,
// the journal and snapshots hold ids; names live in intent. Zero means none.
type (
	// NodeID is the number of a node.
	NodeID uint32
	// UnitID is the number of a unit: a resource that lands on nodes. It survives edits
	// of the unit. All kinds of units must draw from one sequence.
	UnitID uint32
	// CheckID is the number of a unit that is a check.
	CheckID = UnitID
	// ChunkID is the number of one compiled definition of a unit (see Chunk): a
	// new one for every edit that changes execution or judgement.
	ChunkID uint32
	// NamespaceID is the number of a namespace.
	NamespaceID uint32
)

// ServerNode is the node of the server's own events.
const ServerNode NodeID = 1

// KeepaliveCheck is the event of a node itself: OK while its agent is heard. It is no resource, and no chunk
// judges it. Ids below FirstCheck are reserved for built-in checks.
const (
	KeepaliveCheck CheckID = 1
	FirstCheck     CheckID = 1000 // intent gives ids to checks from here on
)

// Partition is one of the 256 fixed shares of all nodes.
type Partition uint8

// Partitions is fixed for ever: it is part of the journal's format.
const Partitions = 256

// PartitionOf returns xxhash64 of the node's sixteen id bytes, modulo Partitions.
func PartitionOf(node uuid.UUID) Partition {
	return Partition(xxhash.Sum64(node[:]) % Partitions)
}
