package shard

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Flags of a node in a snapshot.
const (
	nodeStopped = 1 << iota
	nodeWaits
)

// encode writes the section nodes: nodes by id, tombstones by node.
func (p *Partition) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.order)))
	var before model.NodeID
	for _, n := range p.order {
		node := &p.nodes[n]
		b = binary.AppendUvarint(b, uint64(node.ID-before))
		before = node.ID
		b = p.encodeNode(b, n, node)
	}
	b = binary.AppendUvarint(b, uint64(len(p.tombstones)))
	for _, id := range slices.Sorted(maps.Keys(p.tombstones)) {
		t := p.tombstones[id]
		b = binary.AppendUvarint(b, uint64(id))
		b = binary.AppendVarint(b, t.At)
		b = AppendBool(b, t.Deleted)
	}
	return b
}

func (p *Partition) encodeNode(b []byte, n uint32, node *Node) []byte {
	b = binary.AppendUvarint(b, uint64(node.Namespace))
	var flags byte
	if node.Stopped {
		flags |= nodeStopped
	}
	if node.waits {
		flags |= nodeWaits
	}
	b = append(b, flags, byte(node.Keepalive))
	b = binary.LittleEndian.AppendUint64(b, node.session)
	b = binary.AppendVarint(b, node.Timeout)
	b = binary.AppendVarint(b, node.Warning)
	b = binary.AppendVarint(b, node.LastSeen)
	b = binary.AppendVarint(b, p.keepalives.Due(n))
	b = binary.AppendUvarint(b, node.backlog)
	b = binary.AppendVarint(b, node.BacklogUntil)
	b = binary.AppendUvarint(b, uint64(len(node.streams)))
	for _, s := range node.streams {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.key.Stream))
		b = append(b, byte(s.key.Lane))
		b = binary.AppendUvarint(b, s.last)
	}
	return b
}

func (p *Partition) decode(d *Decoder) {
	var id model.NodeID
	for i := range d.Count() {
		step := d.Uint32()
		next := id + model.NodeID(step)
		if i > 0 && next <= id {
			d.Fail("nodes out of order")
		}
		if d.err != nil {
			return
		}
		id = next
		p.decodeNode(d, id)
	}
	for range d.Count() {
		id := model.NodeID(d.Uint32())
		p.setTombstone(id, Tombstone{At: d.Int(), Deleted: d.Byte() != 0})
	}
	slices.SortStableFunc(p.buried, func(x, y burial) int { return cmp.Compare(x.at, y.at) })
}

func (p *Partition) decodeNode(d *Decoder, id model.NodeID) {
	n := p.AddNode(id, model.NamespaceID(d.Uint32()))
	node := &p.nodes[n]
	flags := d.Byte()
	node.Stopped, node.waits = flags&nodeStopped != 0, flags&nodeWaits != 0
	if node.Keepalive = KeepaliveState(d.Byte()); node.Keepalive >= keepaliveStates {
		d.Fail("keepalive out of range")
		return
	}
	node.session = d.Fixed64()
	node.Timeout = d.Int()
	node.Warning = d.Int()
	node.LastSeen = d.Int()
	if due := d.Int(); due > 0 {
		p.keepalives.Set(n, due)
	}
	node.backlog = d.Uint()
	node.BacklogUntil = d.Int()
	streams := d.Count()
	if streams > MaxStreams {
		d.Fail("too many streams")
		return
	}
	for range streams {
		key := wire.StreamKey{Stream: wire.StreamID(d.Fixed64()), Lane: wire.Lane(d.Byte())}
		node.streams = append(node.streams, streamLast{key, d.Uint()})
	}
}
