package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// RecordKind is the kind of a journal record, such as a batch of results. It is the record's first byte.
type RecordKind uint8

const (
	// RecordBatch has a Batch as the agent sent it, with its node.
	RecordBatch RecordKind = 1
	// RecordSession marks the start or end of a session.
	RecordSession RecordKind = 2
	// RecordStarted marks that the server listens again after a pause (section All).
	RecordStarted RecordKind = 3
	// RecordIntent marks that an intent revision is in force, and which stores lie beside the journal (section All).
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
	// RecordVerdict has a change in the state of a trigger, which the metric reducer computed from values.
	RecordVerdict RecordKind = 9
	// RecordSamples has samples of series that a Prometheus wrote.
	RecordSamples RecordKind = 10
	// RecordDiscovery holds the discovered items of a Template on a node, or releases them.
	RecordDiscovery RecordKind = 11
	// RecordResume goes on with deferred values of a node.
	RecordResume RecordKind = 12
)

// Record is one decoded journal record of any kind. Which fields are set depends on Kind.
type Record struct {
	Kind  RecordKind
	Node  model.NodeID // Batch, Session, Forget (zero: all nodes), Action, ServerResult, ProxyResult, Verdict (the node that it is about), Discovery, Resume
	Batch []byte       // Batch: the encoded wire.Batch, still to be decoded

	Session      *SessionRecord
	Forget       *ForgetRecord
	Action       *Action
	ServerResult *ServerResult
	ProxyResult  *ProxyResult
	Intent       IntentRecord // a value, because each partition decodes each mark
	Verdict      *Verdict
	Samples      *Samples
	Discovery    *DiscoveryRecord
	Resume       ResumeRecord
}

// Samples is the journal record of values of Prometheus series, encoded as one block. A SampleReader reads the
// block.
type Samples struct{ Block []byte }

// DiscoveryRecord is the journal record that stops a Template from creating discovered items, or lets the Template
// resume. The reason is the namespace's limit of discovered items. A held Template keeps its first items, and new
// entities create none.
type DiscoveryRecord struct {
	Unit  model.UnitID
	Hold  bool   // else release
	Items uint32 // with Hold: the most items that stay
}

// ResumeRecord is the journal record that goes on with deferred values of a node. The server decides by the clock
// when to write it and with how many steps; a replay repeats that decision.
type ResumeRecord struct {
	Steps uint32 // steps of JavaScript after which the values wait for another record
}

// Verdict is the journal record that the result of a trigger (alert rule on values) has changed. A trigger is
// an alert rule on values; true means a problem. Commit and Index tell the values that changed it: a replay
// computes the verdict from them again and finds here that it is recorded.
type Verdict struct {
	Commit     uint64             // number of the commit of the values
	Index      uint32             // among the verdicts of that commit and partition
	Definition model.DefinitionID // of the Template that judged
	Trigger    string             // its name: the instance of the event
	Problem    bool               // the trigger is true; else false again
	Removed    bool               // the Template has no such trigger any more, or its entity was lost: its event goes
	Executed   int64              // time of the value, Unix ns
	Output     []byte
	Severity   model.Severity // of the problem; zero for one that is removed

	Labels      map[string]string // of the problem
	Description string            // likewise
}

// IntentRecord is the journal record that a revision of the declared resources is in force. It also has the ids
// of the other stores. A start compares the last mark with the stores that it opens.
type IntentRecord struct {
	Revision    int64
	Incarnation uint64 // of the journal that the mark was written to
	Intent      uint64 // identity of the intent store
	LastID      uint32 // highest id that the intent store has given to any kind
	History     uint64 // identity of the history store
	Recorded    uint64 // transactions of the history store
	Authority   uint64 // identity of the certificate authority
}

// SessionRecord is the journal record of a session's start or end. A start is written before Welcome.
type SessionRecord struct {
	Session     uint64
	Start       bool // else ended
	Clean       bool // ended by Bye: a planned stop
	Namespace   model.NamespaceID
	KeepaliveMs uint32
	TimeoutMs   uint32
	Backlog     uint64 // signals still spooled, from Hello
	WarningMs   uint32 // of silence after which the keepalive warns; zero: it does not
	NoKeepalive bool   // the session only delivers results: the node owes no keepalive
	// EveryKeepalive means that pipelines evaluate each keepalive of the node, and each repetition of a silence.
	EveryKeepalive bool
	Registered     bool // the node was created for this session of a Sensu agent
}

// ForgetRecord is the journal record that the events of a check or node were deleted.
type ForgetRecord struct {
	Check   model.CheckID // zero: all checks of the node
	Deleted bool          // the resource itself is deleted: leave a tombstone
	// Of a deregistered ephemeral node:
	Deregistered string // NAMESPACE/NODE
	Handlers     string // handlers that are notified, NAMESPACE/NAME, with commas between; empty: none
	Reason       string
	Entity       string // the entity that its Sensu agent reported, as JSON; empty: there is none
}

// Action is the journal record of what a person did to an event, such as an acknowledgement. It is journaled before
// the API answers.
type Action struct {
	Verb  string // resolve | delete | acknowledge | unacknowledge
	Check model.CheckID
	By    string
	Note  string
	Until uint64 // of an acknowledgement, Unix ms; zero: until the problem ends
	// Problem is the id of the problem that it is for: nothing is done where another one is open by then,
	// or none. Empty: any.
	Problem  string
	Instance string // trigger of the Template Check; empty: an event of a check
}

// ServerResult is the journal record of a result that the server itself made. The result is about the server or about
// a node. The definition has its check.
type ServerResult struct {
	Definition model.DefinitionID
	Status     model.Status
	Output     []byte
}

// ProxyResult is the journal record of a check result about a proxy node. It names the node that ran the check. It may
// also have values that a Zabbix sender sent about any node.
type ProxyResult struct {
	StreamKey
	Number    uint64            // in that node's stream
	By        model.NodeID      // the node that ran it; zero: the server took values from a Zabbix sender
	Namespace model.NamespaceID // of the proxy node
	NowMs     uint64            // of the batch it came in
	Signal    []byte            // encoded, see Signal.Decode
}

// A journal record is one byte of RecordKind and a body. The body of a batch is the node's number as a
// varint and the encoded Batch, so that journaling a batch is a copy; the other bodies are the messages
// of docs/protocol/records.proto.

// AppendRecord appends the encoding of a journal record.
func AppendRecord(dst []byte, r *Record) []byte {
	if r.Kind == RecordBatch {
		return append(AppendBatchRecord(dst, r.Node), r.Batch...)
	}
	c := encoder(append(dst, byte(r.Kind)))
	r.code(&c)
	return c.dst
}

// recordMessages has the name of each record's message in docs/protocol/records.proto.
var recordMessages = [...]string{
	RecordBatch: "BatchRecord", RecordSession: "SessionRecord", RecordStarted: "StartedRecord", RecordIntent: "IntentRecord",
	RecordForget: "ForgetRecord", RecordAction: "ActionRecord", RecordServerResult: "ServerResultRecord",
	RecordProxyResult: "ProxyResultRecord", RecordVerdict: "VerdictRecord", RecordSamples: "SamplesRecord", RecordDiscovery: "DiscoveryRecord",
	RecordResume: "ResumeRecord",
}

// code encodes or decodes the fields of the journal record, by its kind.
func (r *Record) code(c *coder) {
	switch r.Kind {
	case RecordSession:
		codeSessionRecord(c, r)
	case RecordStarted:
	case RecordIntent:
		codeIntentRecord(c, r)
	case RecordForget:
		codeForgetRecord(c, r)
	case RecordAction:
		codeActionRecord(c, r)
	case RecordServerResult:
		codeServerResultRecord(c, r)
	case RecordProxyResult:
		codeProxyResultRecord(c, r)
	case RecordVerdict:
		codeVerdictRecord(c, r)
	case RecordSamples:
		codeSamplesRecord(c, r)
	case RecordDiscovery:
		codeDiscoveryRecord(c, r)
	case RecordResume:
		codeResumeRecord(c, r)
	default:
		panic(fmt.Sprintf("BUG: code a record of kind %d", r.Kind))
	}
}

// AppendBatchRecord appends the first fields of the journal record of an agent's batch. The start has kind and node.
// The caller appends the body of the agent's Batch frame.
func AppendBatchRecord(dst []byte, node model.NodeID) []byte {
	return binary.AppendUvarint(append(dst, byte(RecordBatch)), uint64(node))
}

// Decode decodes a journal record of any kind. Byte slices alias data. An unknown kind is an error: a journal is never
// newer than the program that reads it.
func (r *Record) Decode(data []byte) error {
	*r = Record{}
	if len(data) == 0 {
		return fmt.Errorf("decode journal record: %w: the record is empty", ErrMalformed)
	}
	r.Kind = RecordKind(data[0])
	switch r.Kind {
	case RecordBatch:
		node, n := uvarint(data, 1)
		if n < 0 || node > 1<<32-1 {
			return fmt.Errorf("decode BatchRecord.node: %w", ErrMalformed)
		}
		r.Node, r.Batch = model.NodeID(node), data[n:]
		return nil
	case RecordSession:
		r.Session = &SessionRecord{}
	case RecordForget:
		r.Forget = &ForgetRecord{}
	case RecordAction:
		r.Action = &Action{}
	case RecordServerResult:
		r.ServerResult = &ServerResult{}
	case RecordProxyResult:
		r.ProxyResult = &ProxyResult{}
	case RecordVerdict:
		r.Verdict = &Verdict{}
	case RecordSamples:
		r.Samples = &Samples{}
	case RecordDiscovery:
		r.Discovery = &DiscoveryRecord{}
	}
	if int(r.Kind) >= len(recordMessages) || recordMessages[r.Kind] == "" {
		return fmt.Errorf("decode journal record: %w: unknown kind %d", ErrMalformed, data[0])
	}
	c := decoder(recordMessages[r.Kind], data[1:])
	for c.pass() {
		r.code(&c)
	}
	return c.err
}
