package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

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

// A journal record is one byte of RecordKind and a body. The body of a batch is the node's number as a
// varint and the encoded Batch, so that journaling a batch is a copy; the other bodies are the messages
// of docs/protocol/records.proto.

// AppendRecord writes one journal entry.
func AppendRecord(dst []byte, r *Record) []byte {
	switch r.Kind {
	case RecordBatch:
		return append(AppendBatchRecord(dst, r.Node), r.Batch...)
	case RecordSession:
		dst = append(dst, byte(r.Kind))
		dst = appendUint(dst, 1, uint64(r.Node))
		m := r.Session
		dst = appendFixed64(dst, 2, m.Session)
		dst = appendBool(dst, 3, m.Begun)
		dst = appendBool(dst, 4, m.Clean)
		dst = appendUint(dst, 5, uint64(m.Namespace))
		dst = appendUint(dst, 6, uint64(m.KeepaliveMs))
		dst = appendUint(dst, 7, uint64(m.TimeoutMs))
		dst = appendUint(dst, 8, m.Backlog)
		dst = appendUint(dst, 9, uint64(m.WarningMs))
		return appendBool(dst, 10, m.NoKeepalive)
	case RecordStarted:
		return append(dst, byte(r.Kind))
	case RecordIntent:
		return appendUint(append(dst, byte(r.Kind)), 1, uint64(r.Intent))
	case RecordForget:
		dst = append(dst, byte(r.Kind))
		dst = appendUint(dst, 1, uint64(r.Node))
		dst = appendUint(dst, 2, uint64(r.Forget.Check))
		dst = appendBool(dst, 3, r.Forget.Deleted)
		dst = appendString(dst, 4, r.Forget.Deregistered)
		dst = appendString(dst, 5, r.Forget.Handlers)
		return appendString(dst, 6, r.Forget.Reason)
	case RecordAction:
		dst = append(dst, byte(r.Kind))
		dst = appendUint(dst, 1, uint64(r.Node))
		dst = appendString(dst, 2, r.Action.Verb)
		dst = appendUint(dst, 3, uint64(r.Action.Check))
		dst = appendString(dst, 4, r.Action.By)
		dst = appendString(dst, 5, r.Action.Note)
		dst = appendUint(dst, 6, r.Action.Until)
		return appendString(dst, 7, r.Action.Problem)
	case RecordServerResult:
		dst = append(dst, byte(r.Kind))
		dst = appendUint(dst, 1, uint64(r.Node))
		dst = appendUint(dst, 2, uint64(r.ServerResult.Chunk))
		dst = appendUint(dst, 3, uint64(r.ServerResult.Status))
		return appendBytes(dst, 4, r.ServerResult.Output)
	case RecordProxyResult:
		dst = append(dst, byte(r.Kind))
		dst = appendKey(dst, r.ProxyResult.StreamKey)
		dst = appendUint(dst, 3, uint64(r.Node))
		dst = appendUint(dst, 4, uint64(r.ProxyResult.By))
		dst = appendUint(dst, 5, uint64(r.ProxyResult.Namespace))
		dst = appendUint(dst, 6, r.ProxyResult.Number)
		dst = appendUint(dst, 7, r.ProxyResult.NowMs)
		return appendBytes(dst, 8, r.ProxyResult.Signal)
	}
	panic(fmt.Sprintf("BUG: append record of kind %d", r.Kind))
}

// AppendBatchRecord writes the head of a RecordBatch; the caller appends the body of the agent's frame.
func AppendBatchRecord(dst []byte, node model.NodeID) []byte {
	return binary.AppendUvarint(append(dst, byte(RecordBatch)), uint64(node))
}

// Decode reads one journal entry. Byte slices alias data. An unknown kind is an error: a journal is never
// newer than the program that reads it.
func (r *Record) Decode(data []byte) error {
	*r = Record{}
	if len(data) == 0 {
		return fmt.Errorf("decode record: %w: empty", ErrMalformed)
	}
	r.Kind = RecordKind(data[0])
	f := fields{rest: data[1:]}
	switch r.Kind {
	case RecordBatch:
		node, n := uvarint(data, 1)
		if n < 0 || node > 1<<32-1 {
			return fmt.Errorf("decode BatchRecord.node: %w", ErrMalformed)
		}
		r.Node, r.Batch = model.NodeID(node), data[n:]
	case RecordSession:
		f.message = "SessionRecord"
		r.decodeSession(&f)
	case RecordStarted:
		f.message = "StartedRecord"
		for f.next() {
		}
	case RecordIntent:
		f.message = "IntentRecord"
		for f.next() {
			if f.num == 1 {
				r.Intent = f.int64("revision")
			}
		}
	case RecordForget:
		f.message = "ForgetRecord"
		r.Forget = &ForgetMark{}
		for f.next() {
			switch f.num {
			case 1:
				r.Node = model.NodeID(f.uint32("node"))
			case 2:
				r.Forget.Check = model.CheckID(f.uint32("check"))
			case 3:
				r.Forget.Deleted = f.bool("deleted")
			case 4:
				r.Forget.Deregistered = f.string("deregistered", maxBody)
			case 5:
				r.Forget.Handlers = f.string("handlers", maxBody)
			case 6:
				r.Forget.Reason = f.string("reason", maxBody)
			}
		}
	case RecordAction:
		f.message = "ActionRecord"
		r.decodeAction(&f)
	case RecordServerResult:
		f.message = "ServerResultRecord"
		r.decodeOwn(&f)
	case RecordProxyResult:
		f.message = "ProxyResultRecord"
		r.decodeProxied(&f)
	default:
		return fmt.Errorf("decode record: %w: kind %d is not known", ErrMalformed, data[0])
	}
	return f.err
}

func (r *Record) decodeSession(f *fields) {
	m := &SessionMark{}
	r.Session = m
	for f.next() {
		switch f.num {
		case 1:
			r.Node = model.NodeID(f.uint32("node"))
		case 2:
			m.Session = f.fixed64("session")
		case 3:
			m.Begun = f.bool("begun")
		case 4:
			m.Clean = f.bool("clean")
		case 5:
			m.Namespace = model.NamespaceID(f.uint32("namespace"))
		case 6:
			m.KeepaliveMs = f.uint32("keepalive_ms")
		case 7:
			m.TimeoutMs = f.uint32("timeout_ms")
		case 8:
			m.Backlog = f.uint64("backlog")
		case 9:
			m.WarningMs = f.uint32("warning_ms")
		case 10:
			m.NoKeepalive = f.bool("no_keepalive")
		}
	}
}

func (r *Record) decodeAction(f *fields) {
	a := &Action{}
	r.Action = a
	for f.next() {
		switch f.num {
		case 1:
			r.Node = model.NodeID(f.uint32("node"))
		case 2:
			a.Verb = f.string("verb", maxName)
		case 3:
			a.Check = model.CheckID(f.uint32("check"))
		case 4:
			a.By = f.string("by", maxText)
		case 5:
			a.Note = f.string("note", maxBody)
		case 6:
			a.Until = f.uint64("until_ms")
		case 7:
			a.Problem = f.string("problem", maxName)
		}
	}
}

func (r *Record) decodeOwn(f *fields) {
	o := &ServerResult{}
	r.ServerResult = o
	for f.next() {
		switch f.num {
		case 1:
			r.Node = model.NodeID(f.uint32("node"))
		case 2:
			o.Chunk = model.ChunkID(f.uint32("chunk"))
		case 3:
			o.Status = model.Status(f.uint("status", uint64(model.Unknown)))
		case 4:
			o.Output = f.raw("output", MaxFrame)
		}
	}
}

func (r *Record) decodeProxied(f *fields) {
	p := &ProxyResult{}
	r.ProxyResult = p
	for f.next() {
		switch f.num {
		case 1, 2:
			f.key(&p.StreamKey)
		case 3:
			r.Node = model.NodeID(f.uint32("node"))
		case 4:
			p.By = model.NodeID(f.uint32("by"))
		case 5:
			p.Namespace = model.NamespaceID(f.uint32("namespace"))
		case 6:
			p.Number = f.uint("number", maxNumber)
		case 7:
			p.NowMs = f.uint64("now_ms")
		case 8:
			p.Signal = f.raw("signal", MaxFrame)
		}
	}
}
