package event

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// A snapshot is a partition in one canonical order: nodes by id, their states by
// check, absences by node and check. Indexes, slots and the heap are not in it, so
// that two views that got here by different ways write the same bytes: Hash is the
// hash of the snapshot. docs/snapshot-format.md has the table of fields.

const (
	nodeStopped = 1 << iota
)

func (p *partition) encode(b []byte) []byte {
	b = append(b, SnapshotVersion)
	b = binary.AppendUvarint(b, uint64(len(p.order)))
	var before model.NodeID
	for _, i := range p.order {
		n := &p.nodes[i]
		b = binary.AppendUvarint(b, uint64(n.id-before))
		before = n.id
		b = p.encodeNode(b, n)
	}
	absent := make([]absentKey, 0, len(p.absent))
	for key := range p.absent {
		absent = append(absent, key)
	}
	slices.SortFunc(absent, func(x, y absentKey) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.check, y.check))
	})
	b = binary.AppendUvarint(b, uint64(len(absent)))
	for _, key := range absent {
		a := p.absent[key]
		b = binary.AppendUvarint(b, uint64(key.node))
		b = binary.AppendUvarint(b, uint64(key.check))
		b = binary.AppendVarint(b, a.at)
		b = appendBool(b, a.gone)
	}
	return b
}

func (p *partition) encodeNode(b []byte, n *node) []byte {
	b = binary.AppendUvarint(b, uint64(n.namespace))
	var flags byte
	if n.stopped {
		flags |= nodeStopped
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint64(b, n.session)
	b = binary.AppendVarint(b, n.timeout)
	b = binary.AppendVarint(b, n.warning)
	b = binary.AppendVarint(b, n.heard)
	b = binary.AppendUvarint(b, n.backlog)
	b = binary.AppendVarint(b, n.backlogUntil)
	b = binary.AppendUvarint(b, uint64(len(n.streams)))
	for _, s := range n.streams {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.key.Stream))
		b = append(b, byte(s.key.Lane))
		b = binary.AppendUvarint(b, s.last)
	}
	b = binary.AppendUvarint(b, uint64(len(n.states)))
	var before model.CheckID
	for _, e := range n.states {
		b = binary.AppendUvarint(b, uint64(e.check-before))
		before = e.check
		b = p.encodeState(b, n, e.slot)
	}
	return b
}

// Times of a state are written as differences to a neighbour: a few bytes each.
func (p *partition) encodeState(b []byte, n *node, id uint32) []byte {
	s := p.slots.at(id)
	b = append(b, byte(s.status), byte(s.severity), byte(s.flags), s.historyLen)
	b = binary.AppendUvarint(b, uint64(s.chunk))
	b = binary.AppendUvarint(b, s.history)
	b = binary.AppendUvarint(b, uint64(s.streak))
	b = binary.AppendUvarint(b, uint64(s.occurrences))
	b = binary.AppendUvarint(b, uint64(s.watermark))
	b = binary.AppendUvarint(b, uint64(s.stateChanges))
	b = binary.AppendUvarint(b, uint64(s.durationMs))
	b = binary.AppendUvarint(b, s.results)
	b = binary.AppendUvarint(b, s.lost)
	b = binary.LittleEndian.AppendUint64(b, s.stream)
	b = binary.AppendUvarint(b, s.number)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.order))
	b = binary.AppendVarint(b, n.heard-s.received)
	b = binary.AppendVarint(b, s.received-s.executed)
	b = binary.AppendVarint(b, s.executed-s.lastOK)
	b = binary.AppendVarint(b, s.received-s.changed)
	b = binary.AppendVarint(b, p.deadlines.Due(id))
	b = binary.AppendUvarint(b, uint64(s.output.size))
	b = append(b, p.outputs.bytes(s.output)...)
	if s.flags&flagProxied != 0 {
		b = binary.AppendUvarint(b, uint64(p.runners[id]))
	}
	if s.flags&flagOpen == 0 {
		return b
	}
	o := p.problems[id]
	b = appendText(b, o.ID)
	b = binary.AppendUvarint(b, uint64(o.Chunk))
	b = append(b, byte(o.Status), byte(o.Severity))
	b = binary.AppendVarint(b, o.Opened.UnixNano())
	b = appendText(b, o.Output)
	b = binary.AppendUvarint(b, uint64(o.Texts))
	b = appendBool(b, o.Ack != nil)
	if o.Ack == nil {
		return b
	}
	b = appendText(b, o.Ack.By)
	b = appendText(b, o.Ack.Note)
	b = binary.AppendVarint(b, o.Ack.At.UnixNano())
	if o.Ack.Until.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, o.Ack.Until.UnixNano())
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
