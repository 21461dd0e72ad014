package event

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// The section events holds the states of nodes that have any, nodes by id and states by
// check, then absences by node and check. Indexes, slots and the heap are not in it, so
// that two views that got here by different ways write the same bytes.
// docs/snapshot-format.md has the table of fields.

func (p *partition) encode(b []byte) []byte {
	count := 0
	for _, n := range p.Order() {
		if len(p.nodes[n].states) > 0 {
			count++
		}
	}
	b = binary.AppendUvarint(b, uint64(count))
	var before model.NodeID
	for _, n := range p.Order() {
		if len(p.nodes[n].states) == 0 {
			continue
		}
		id := p.Node(n).ID
		b = binary.AppendUvarint(b, uint64(id-before))
		before = id
		b = p.encodeStates(b, n)
	}
	absent := make([]stateKey, 0, len(p.absent))
	for key := range p.absent {
		absent = append(absent, key)
	}
	slices.SortFunc(absent, func(x, y stateKey) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.check, y.check))
	})
	b = binary.AppendUvarint(b, uint64(len(absent)))
	for _, key := range absent {
		t := p.absent[key]
		b = binary.AppendUvarint(b, uint64(key.node))
		b = binary.AppendUvarint(b, uint64(key.check))
		b = binary.AppendVarint(b, t.At)
		b = shard.AppendBool(b, t.Deleted)
	}
	return b
}

func (p *partition) encodeStates(b []byte, n uint32) []byte {
	states := p.nodes[n].states
	b = binary.AppendUvarint(b, uint64(len(states)))
	var before model.CheckID
	for _, e := range states {
		b = binary.AppendUvarint(b, uint64(e.check-before))
		before = e.check
		b = p.encodeState(b, p.Node(n).LastSeen, e.slot)
	}
	return b
}

// Times of a state are written as differences to a neighbour: a few bytes each.
func (p *partition) encodeState(b []byte, lastSeen int64, id uint32) []byte {
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
	b = binary.AppendVarint(b, lastSeen-s.received)
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
	b = shard.AppendText(b, o.ID)
	b = binary.AppendUvarint(b, uint64(o.Chunk))
	b = append(b, byte(o.Status), byte(o.Severity))
	b = binary.AppendVarint(b, o.Opened.UnixNano())
	b = shard.AppendText(b, o.Output)
	b = binary.AppendUvarint(b, uint64(o.KeptOutputs))
	b = shard.AppendBool(b, o.Ack != nil)
	if o.Ack == nil {
		return b
	}
	b = shard.AppendText(b, o.Ack.By)
	b = shard.AppendText(b, o.Ack.Note)
	b = binary.AppendVarint(b, o.Ack.At.UnixNano())
	if o.Ack.Until.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, o.Ack.Until.UnixNano())
}
