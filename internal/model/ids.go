package model

import (
	"time"

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
func PartitionOf(node uuid.UUID) Partition { return Partition(xxhash.Sum64(node[:]) % Partitions) }

// Namespaces that exist from the first start on, with fixed numbers.
const (
	DefaultNamespace NamespaceID = 1
	SharedNamespace  NamespaceID = 2 // its checks may target the nodes of all

	DefaultNamespaceName = "default"
	SharedNamespaceName  = "shared"
)

// ServerNodeName is the node of the server's own events. It is in the default namespace and no resource.
const ServerNodeName = "muster-server"

// Built-in checks of the server and of nodes. The server judges them itself.
const (
	SessionsCheck CheckID = 2 // many sessions ended at once
	JournalCheck  CheckID = 3 // the journal's disk budget, and whether it commits
	HistoryCheck  CheckID = 4 // the history store accepts writes
	IdentityCheck CheckID = 5 // of a node: exactly one machine uses its identity
	WatchdogCheck CheckID = 6 // a synthetic result passes all stages, once a minute
	StreamsCheck  CheckID = 7 // handlers of every result keep up
	LimitsCheck   CheckID = 8 // of a node: it keeps its namespace's limits
	MetricsCheck  CheckID = 9 // of a node: metrics that its Sensu agent measured without a check
)

// KeepaliveCheckName is the name of KeepaliveCheck.
const KeepaliveCheckName = "keepalive"

// BuiltinCheckName names the checks below FirstCheck; "" for an unknown number.
func BuiltinCheckName(id CheckID) string {
	switch id {
	case KeepaliveCheck:
		return KeepaliveCheckName
	case SessionsCheck:
		return "muster-sessions"
	case JournalCheck:
		return "muster-journal"
	case HistoryCheck:
		return "muster-history"
	case IdentityCheck:
		return "identity"
	case WatchdogCheck:
		return "muster-watchdog"
	case StreamsCheck:
		return "muster-streams"
	case LimitsCheck:
		return "limits"
	case MetricsCheck:
		return "sensu-metrics"
	}
	return ""
}

// BuiltinCheck is the reverse of BuiltinCheckName; zero for an unknown name.
func BuiltinCheck(name string) CheckID {
	for id := KeepaliveCheck; id < FirstCheck && BuiltinCheckName(id) != ""; id++ {
		if BuiltinCheckName(id) == name {
			return id
		}
	}
	return 0
}

// firstBuiltinChunk is far above all ids that the intent store gives.
const firstBuiltinChunk ChunkID = 0xffff0000

// BuiltinChunk returns the id of the chunk that judges a built-in check.
func BuiltinChunk(check CheckID) ChunkID { return firstBuiltinChunk + ChunkID(check) }

// BuiltinChunkOf returns the chunk of such an id; nil for any other. The caller owns the chunk.
func BuiltinChunkOf(id ChunkID) *CheckChunk {
	if id < firstBuiltinChunk {
		return nil
	}
	check := CheckID(id - firstBuiltinChunk)
	name := BuiltinCheckName(check)
	if name == "" {
		return nil
	}
	chunk := &CheckChunk{
		Chunk:    Chunk{ID: id, Unit: check, Namespace: DefaultNamespace, Name: name},
		Interval: time.Minute, FailAfter: 1, RecoverAfter: 1,
	}
	chunk.Seal()
	for s := range chunk.Severities {
		chunk.Severities[s] = DefaultSeverity(Status(s))
	}
	return chunk
}
