package model

import "time"

// Namespaces that exist from the first start on, so that their numbers are fixed.
const (
	DefaultNamespace NamespaceID = 1
	SharedNamespace  NamespaceID = 2 // its checks may target the nodes of all

	DefaultNamespaceName = "default"
	SharedNamespaceName  = "shared"
)

// ServerNodeName is the node the server speaks of when it reports about itself. It
// lives in the default namespace and is no resource.
const ServerNodeName = "muster-server"

// What the server judges about itself, or about a node.
const (
	SessionsCheck CheckID = 2 // many sessions vanished at once
	JournalCheck  CheckID = 3 // the journal's disk budget, and whether it commits
	HistoryCheck  CheckID = 4 // the history store takes what it is given
	IdentityCheck CheckID = 5 // of a node: one machine has its identity, not two
	WatchdogCheck CheckID = 6 // a synthetic result goes the whole way, once a minute
	StreamsCheck  CheckID = 7 // handlers that are told of every result keep up
	LimitsCheck   CheckID = 8 // of a node: its namespace's limits were not met
	MetricsCheck  CheckID = 9 // of a node: what its Sensu agent measured without a check
)

// KeepaliveCheckName is how people call KeepaliveCheck.
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

// firstBuiltinChunk is far above what the intent store will ever give.
const firstBuiltinChunk ChunkID = 0xffff0000

// BuiltinChunk is the id of the definition that judges a built-in check.
func BuiltinChunk(check CheckID) ChunkID { return firstBuiltinChunk + ChunkID(check) }

// BuiltinChunkOf resolves such an id; nil for any other. The chunk is the caller's.
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
