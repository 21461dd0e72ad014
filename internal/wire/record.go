package wire

import "github.com/muster-fleet/muster/internal/model"

// RecordKind is the first byte of every journal entry of the server.
type RecordKind uint8

const (
	// RecordBatch: a Batch as the agent sent it, with the node that sent it.
	RecordBatch RecordKind = 1
	// RecordSession: a session began or ended (a mark).
	RecordSession RecordKind = 2
	// RecordStarted: the server began to listen after not listening (a mark, section All).
	RecordStarted RecordKind = 3
	// RecordIntent: an intent revision is in force (a mark, section All).
	RecordIntent RecordKind = 4
	// RecordForget: event states that are expected no more (a mark).
	RecordForget RecordKind = 5
	// RecordAction: what an operator did (resolve, delete, acknowledge).
	RecordAction RecordKind = 6
	// RecordServerResult: a result of the server about itself or about a node.
	RecordServerResult RecordKind = 7
	// RecordProxyResult: a result that a node sent about another one, a proxy node. Its number
	// stands in the batch of the node that sent it, in the same commit.
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
	Clean       bool // ended by Bye: a planned stop is not a death
	Namespace   model.NamespaceID
	KeepaliveMs uint32
	TimeoutMs   uint32
	Backlog     uint64 // signals still spooled, from Hello
	WarningMs   uint32 // of silence after which the keepalive warns; zero: it does not
	NoKeepalive bool   // for a result, not for a life: no sign of life is expected of the node
}

// ForgetMark says that results of a check, or of a node, are expected no more.
type ForgetMark struct {
	Check   model.CheckID // zero: all checks of the node
	Deleted bool          // the resource itself is deleted: leave a tombstone
	// Of an ephemeral node that was forgotten and whose end somebody is to hear of.
	Deregistered string // NAMESPACE/NODE
	Handlers     string // handlers, NAMESPACE/NAME, with commas between
	Reason       string
}

// Action is what an operator did to an event; written before the API answers.
type Action struct {
	Verb  string // resolve | delete | acknowledge | unacknowledge
	Check model.CheckID
	By    string
	Note  string
	Until uint64 // of an acknowledgement, Unix ms; zero: until the problem ends
	// Problem is what it is done to: where another one is open by then, or none, nothing is done.
	// Empty: whatever there is.
	Problem string
}

// ServerResult is a result without an agent: the server about itself (node
// model.ServerNode) or on a node's behalf. It is judged by the chunk.
type ServerResult struct {
	Chunk  model.ChunkID
	Status model.Status
	Output []byte
}

// ProxyResult is a result about a proxy node, as the node that ran it sent it.
type ProxyResult struct {
	StreamKey
	Number    uint64            // in that node's stream
	By        model.NodeID      // the node that ran it
	Namespace model.NamespaceID // of the proxy node
	NowMs     uint64            // of the batch it came in
	Signal    []byte            // as that node encoded it: see Signal.Decode
}
