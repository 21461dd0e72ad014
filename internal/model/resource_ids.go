package model

import (
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
)

// The server's database (intent) gives each numeric id once and never again. The wire protocol, the journal and
// snapshots hold ids; only intent holds the names. Zero means none.
type (
	// NodeID is the id of a node, which never changes
	NodeID uint32
	// UnitID is the id of a resource that can be assigned to nodes (unit), such as a check. The server assigns
	// units to nodes. It survives edits of the unit. All kinds of units must draw from one sequence.
	UnitID uint32
	// CheckID is the id of a check
	CheckID = UnitID
	// DefinitionID is the id of a compiled version of a check, Template or directive (see Definition). An edit
	// that changes how a check runs or how its results become events creates a new one.
	DefinitionID uint32
	// NamespaceID is the id of a namespace.
	NamespaceID uint32
)

// ServerNode is the node of the server's own events.
const ServerNode NodeID = 1

// KeepaliveCheck is the check keepalive of every node: its event is OK while the server hears the node's agent. It is
// no resource, and no definition judges it. Ids below FirstCheck are reserved for built-in checks.
const (
	KeepaliveCheck CheckID = 1
	FirstCheck     CheckID = 1000 // intent gives ids to checks from here on
)

// Partition is the number, 0 to 255, of one of the groups into which all nodes are divided.
type Partition uint8

// Partitions is the number of partitions. It never changes, because the format of the journal depends on it.
const Partitions = 256

// PartitionOf returns the partition (group number, 0 to 255) to which a node belongs. It is xxhash64 of its uid,
// modulo Partitions.
func PartitionOf(node uuid.UUID) Partition { return Partition(xxhash.Sum64(node[:]) % Partitions) }

// Namespaces that exist from the first start on, with fixed numbers.
const (
	DefaultNamespace NamespaceID = 1
	SharedNamespace  NamespaceID = 2 // its checks may target the nodes of all namespaces

	DefaultNamespaceName = "default"
	SharedNamespaceName  = "shared"
)

// ServerNodeName is the node of the server's own events. It is in the default namespace and no resource.
const ServerNodeName = "muster-server"

// Built-in checks of the server and of nodes. The server judges them itself.
const (
	SessionsCheck CheckID = 2 // fails when many sessions ended at once
	JournalCheck  CheckID = 3 // fails when the journal's disk budget is used up or commits fail
	HistoryCheck  CheckID = 4 // fails when the history store refuses writes
	IdentityCheck CheckID = 5 // of a node: fails when several machines use its identity
	WatchdogCheck CheckID = 6 // fails when the watchdog's result, once a minute, does not pass all stages
	StreamsCheck  CheckID = 7 // fails when handlers that get every result fall behind
	LimitsCheck   CheckID = 8 // of a node: fails when the node reaches a limit of its namespace
	MetricsCheck  CheckID = 9 // of a node: holds metrics that its Sensu agent measured without a check

	FilesCheck CheckID = 10 // fails when a file of the data folder was deleted or replaced under the server

	RolloutsCheck CheckID = 11 // fails while failures have stopped a roll-out
)

// KeepaliveCheckName is the name of KeepaliveCheck.
const KeepaliveCheckName = "keepalive"

// BuiltinCheckName returns the name of a built-in check by its id, or "" for another id.
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
	case FilesCheck:
		return "muster-files"
	case RolloutsCheck:
		return "muster-rollouts"
	}
	return ""
}

// BuiltinCheckID returns the id of a built-in check by its name, or zero for another name.
func BuiltinCheckID(name string) CheckID {
	for id := KeepaliveCheck; id < FirstCheck && BuiltinCheckName(id) != ""; id++ {
		if BuiltinCheckName(id) == name {
			return id
		}
	}
	return 0
}

// IsServerCheck reports whether a built-in check is about the server itself, not about other nodes
func IsServerCheck(id CheckID) bool { return strings.HasPrefix(BuiltinCheckName(id), "muster-") }

// firstBuiltinDefinition is the first id of built-in definitions, far above all ids that the intent store gives.
const firstBuiltinDefinition DefinitionID = 0xffff0000

// BuiltinDefinitionID returns the definition id of a built-in check's compiled form.
func BuiltinDefinitionID(check CheckID) DefinitionID {
	return firstBuiltinDefinition + DefinitionID(check)
}

// BuiltinDefinitionOf returns the compiled definition of a built-in check by its definition id. For other ids it
// returns nil. The caller owns the definition.
func BuiltinDefinitionOf(id DefinitionID) *CheckDefinition {
	if id < firstBuiltinDefinition {
		return nil
	}
	check := CheckID(id - firstBuiltinDefinition)
	name := BuiltinCheckName(check)
	if name == "" {
		return nil
	}
	definition := &CheckDefinition{
		Definition: Definition{ID: id, Unit: check, Namespace: DefaultNamespace, Name: name},
		Interval:   time.Minute, FailAfter: 1, RecoverAfter: 1,
	}
	definition.ToDefinition()
	for s := range definition.Severities {
		definition.Severities[s] = DefaultSeverity(Status(s))
	}
	return definition
}
