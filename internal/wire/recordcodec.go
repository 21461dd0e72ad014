package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

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
