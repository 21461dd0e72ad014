package wire

import "github.com/muster-fleet/muster/internal/model"

// RecordKind is the first byte of every journal entry of the server.
type RecordKind uint8

const (
	// RecordBatch has a Batch as the agent sent it, with its node.
	RecordBatch RecordKind = 1
	// RecordSession marks the start or end of a session.
	RecordSession RecordKind = 2
	// RecordStarted marks that the server listens again after a pause (section All).
	RecordStarted RecordKind = 3
	// RecordIntent marks that an intent revision is in force (section All).
	RecordIntent RecordKind = 4
	// RecordForget marks event states of deleted checks or nodes.
	RecordForget RecordKind = 5
	// RecordAction has an operator's action: resolve, delete, acknowledge.
	RecordAction RecordKind = 6
	// RecordServerResult has a result that the server made for itself or for a node.
	RecordServerResult RecordKind = 7
	// RecordProxyResult has a result for a proxy node. Its number is in the batch of the node that sent
	// it, in the same commit.
	RecordProxyResult RecordKind = 8
)

// Record is one journal entry, decoded. Which fields are set depends on Kind.
type Record struct {
	Kind  RecordKind
	Node  model.NodeID // Batch, Session, Forget (zero: all nodes), Action, Own, ProxyChecks (that it speaks of)
	Batch []byte       // Batch: the encoded wire.Batch, still to be decoded

	Session      *SessionMark
	Forget       *ForgetMark
	Action       *Action
	ServerResult *ServerResult
	ProxyResult  *ProxyResult
	Intent       int64 // revision
}

// SessionMark is written before Welcome and after the end of a session.
type SessionMark struct {
	Session     uint64
	Begun       bool // else ended
	Clean       bool // ended by Bye: a planned stop
	Namespace   model.NamespaceID
	KeepaliveMs uint32
	TimeoutMs   uint32
	Backlog     uint64 // signals still spooled, from Hello
	WarningMs   uint32 // of silence after which the keepalive warns; zero: it does not
	NoKeepalive bool   // the session only delivers results: the node owes no keepalive
}

// ForgetMark ends the event states of a check, or of a node.
type ForgetMark struct {
	Check   model.CheckID // zero: all checks of the node
	Deleted bool          // the resource itself is deleted: leave a tombstone
	// Of a deregistered ephemeral node whose end handlers are notified of.
	Deregistered string // NAMESPACE/NODE
	Handlers     string // handlers, NAMESPACE/NAME, with commas between
	Reason       string
}

// Action is an operator's action on an event. It is journaled before the API answers.
type Action struct {
	Verb  string // resolve | delete | acknowledge | unacknowledge
	Check model.CheckID
	By    string
	Note  string
	Until uint64 // of an acknowledgement, Unix ms; zero: until the problem ends
	// Problem is the id of the problem that it is for: nothing is done where another one is open by then,
	// or none. Empty: any.
	Problem string
}

// ServerResult is a result without an agent: of the server itself (node model.ServerNode) or on behalf
// of a node. The chunk has its check.
type ServerResult struct {
	Chunk  model.ChunkID
	Status model.Status
	Output []byte
}

// ProxyResult is a result for a proxy node, as the node that ran the check sent it.
type ProxyResult struct {
	StreamKey
	Number    uint64            // in that node's stream
	By        model.NodeID      // the node that ran it
	Namespace model.NamespaceID // of the proxy node
	NowMs     uint64            // of the batch it came in
	Signal    []byte            // encoded, see Signal.Decode
}
