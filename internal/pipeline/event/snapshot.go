package event

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A snapshot is a partition in one canonical order: nodes by id, their states by
// check, absences by node and check. Indexes, slots and the heap are not in it, so
// that two views that got here by different ways write the same bytes: Hash is the
// hash of the snapshot. docs/snapshot-format.md has the table of fields.

// SnapshotVersion is the first byte of a snapshot's body. Restore reads this one
// and those before it.
const SnapshotVersion = 1

// Snapshot appends the partition's body to dst and says which position it reflects.
//
// A snapshot replaces the replay of everything up to its position, and with it the
// transitions of those commits: it must not be used for a restart before reactions
// have taken theirs up to that position. Write it beside, wait for them, then let
// it take its name (store/snapshot does).
func (v *View) Snapshot(id model.Partition, dst []byte) (body []byte, at journal.Position) {
	p := v.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	// Commits that do not touch the partition leave its own position behind.
	at = p.at
	if applied := v.workers[int(id)%len(v.workers)].applied.Load(); applied > at.Number {
		at = journal.Position{Log: v.log.Load(), Number: applied}
	}
	return p.encode(dst), at
}

// EmptySnapshot is the body of a partition that holds nothing.
func EmptySnapshot() []byte { return []byte{SnapshotVersion, 0, 0} }

// Hash is equal for two partitions that hold the same.
func (v *View) Hash(id model.Partition) [32]byte {
	body, _ := v.Snapshot(id, nil)
	return sha256.Sum256(body)
}

// Restore fills an empty partition from a snapshot's body. Commits up to at are
// passed over for it; replay must begin at the lowest position of all partitions.
// After an error the partition is empty again. Restores of different partitions may
// run at the same time; all must return before the first Deliver (Run may have begun).
func (v *View) Restore(id model.Partition, at journal.Position, body []byte) error {
	p := newPartition(v, id)
	old := v.partitions[id]
	if len(old.nodes) > 0 || len(old.absent) > 0 {
		return fmt.Errorf("restore partition %d: it is not empty", id)
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	if err := p.decode(body); err != nil {
		p.forgetAll()
		return fmt.Errorf("restore partition %d: %w", id, err)
	}
	p.at = at
	old.adopt(p)
	v.restored(id, at)
	return nil
}

// restored moves Applied to the lowest position of each worker's partitions: where
// all are at the journal's head, nothing will be replayed.
func (v *View) restored(id model.Partition, at journal.Position) {
	v.restoreMu.Lock()
	defer v.restoreMu.Unlock()
	v.log.Store(at.Log)
	v.restoredAt[id] = at.Number
	w := v.workers[int(id)%len(v.workers)]
	lowest := at.Number
	for _, p := range w.owned {
		lowest = min(lowest, v.restoredAt[p.id])
	}
	w.applied.Store(lowest)
}

// adopt takes over what another partition value holds.
func (p *partition) adopt(o *partition) {
	p.at, p.nodes, p.freeNodes, p.order = o.at, o.nodes, o.freeNodes, o.order
	p.slots, p.outputs, p.deadlines = o.slots, o.outputs, o.deadlines
	p.problems, p.absent, p.absences = o.problems, o.absent, o.absences
	p.byStatus, p.bySeverity, p.open = o.byStatus, o.bySeverity, o.open
	p.byCheck, p.counts = o.byCheck, o.counts
}

// forgetAll takes the partition's nodes out of what is shared with others.
func (p *partition) forgetAll() {
	for len(p.order) > 0 {
		p.removeNode(p.order[len(p.order)-1])
	}
}

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
	b = binary.AppendUvarint(b, uint64(s.stateChanges))
	b = binary.AppendUvarint(b, uint64(s.durationMs))
	b = binary.AppendUvarint(b, s.results)
	b = binary.AppendUvarint(b, s.lost)
	b = binary.LittleEndian.AppendUint64(b, s.stream)
	b = binary.AppendUvarint(b, s.number)
	b = binary.AppendVarint(b, n.heard-s.received)
	b = binary.AppendVarint(b, s.received-s.executed)
	b = binary.AppendVarint(b, s.executed-s.lastOK)
	b = binary.AppendVarint(b, s.received-s.changed)
	b = binary.AppendVarint(b, p.deadlines.Due(id))
	b = binary.AppendUvarint(b, uint64(s.output.size))
	b = append(b, p.outputs.bytes(s.output)...)
	if s.flags&flagOpen == 0 {
		return b
	}
	o := p.problems[id]
	b = appendText(b, o.ID)
	b = binary.AppendUvarint(b, uint64(o.Chunk))
	b = append(b, byte(o.Status), byte(o.Severity))
	b = binary.AppendVarint(b, o.Opened.UnixNano())
	return appendText(b, o.Output)
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

var errSnapshot = errors.New("snapshot is malformed")

// decoder reads a snapshot; after the first error it reads zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errSnapshot, what)
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uint()
	if v > 1<<32-1 {
		d.fail("number out of range")
		return 0
	}
	return uint32(v)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("cut short")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) fixed64() uint64 {
	if len(d.b) < 8 {
		d.fail("cut short")
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) bytes() []byte {
	size := d.uint()
	if size > uint64(len(d.b)) {
		d.fail("cut short")
		return nil
	}
	v := d.b[:size:size]
	d.b = d.b[size:]
	return v
}

// count reads how many things follow, each of at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail("more than there are bytes")
		return 0
	}
	return int(n)
}

func (p *partition) decode(body []byte) error {
	d := &decoder{b: body}
	if v := d.byte(); d.err == nil && v != SnapshotVersion {
		return fmt.Errorf("%w: version %d, this program reads %d", errSnapshot, v, SnapshotVersion)
	}
	var id model.NodeID
	for i := range d.count() {
		step := d.uint32()
		if d.err != nil {
			return d.err
		}
		if next := id + model.NodeID(step); i > 0 && next <= id {
			d.fail("nodes out of order")
			return d.err
		} else {
			id = next
		}
		p.decodeNode(d, id)
	}
	for range d.count() {
		key := absentKey{model.NodeID(d.uint32()), model.CheckID(d.uint32())}
		p.addAbsence(key, absence{at: d.int(), gone: d.byte() != 0})
	}
	slices.SortStableFunc(p.absences, func(x, y absentSince) int { return cmp.Compare(x.at, y.at) })
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes after the end")
	}
	return d.err
}

func (p *partition) decodeNode(d *decoder, id model.NodeID) {
	i := p.addNode(id, model.NamespaceID(d.uint32()))
	n := &p.nodes[i]
	n.stopped = d.byte()&nodeStopped != 0
	n.session = d.fixed64()
	n.timeout = d.int()
	n.heard = d.int()
	n.backlog = d.uint()
	n.backlogUntil = d.int()
	streams := d.count()
	if streams > maxStreams {
		d.fail("too many streams")
		return
	}
	for range streams {
		key := wire.StreamKey{Stream: wire.StreamID(d.fixed64()), Lane: wire.Lane(d.byte())}
		n.streams = append(n.streams, streamLast{key, d.uint()})
	}
	states := d.count()
	n.states = make([]nodeState, 0, states+states/8)
	var check model.CheckID
	for k := range states {
		step := d.uint32()
		if d.err != nil {
			return
		}
		next := check + model.CheckID(step)
		if k > 0 && next <= check {
			d.fail("states out of order")
			return
		}
		check = next
		p.decodeState(d, i, check)
	}
}

func (p *partition) decodeState(d *decoder, n uint32, check model.CheckID) {
	id, s := p.addState(n, check)
	status, severity := model.Status(d.byte()), model.Severity(d.byte())
	flags := slotFlags(d.byte())
	s.historyLen = d.byte()
	if status > model.Unknown || severity > model.Disaster || s.historyLen > model.HistoryDepth {
		d.fail("status out of range")
		return
	}
	p.mark(id, s, status, severity)
	s.chunk = model.ChunkID(d.uint32())
	s.history = d.uint() & historyMask
	s.streak = d.uint32()
	s.occurrences = d.uint32()
	s.stateChanges = d.uint32()
	s.durationMs = d.uint32()
	s.results = d.uint()
	s.lost = d.uint()
	s.stream = d.fixed64()
	s.number = d.uint()
	s.received = p.nodes[n].heard - d.int()
	s.executed = s.received - d.int()
	s.lastOK = s.executed - d.int()
	s.changed = s.received - d.int()
	if due := d.int(); due > 0 {
		p.deadlines.Set(id, due)
	}
	s.output = p.outputs.set(outputRef{}, d.bytes())
	s.flags = flags & (flagExpired | flagBacklog)
	if flags&flagOpen == 0 {
		return
	}
	o := &model.Problem{ID: string(d.bytes()), NodeID: p.nodes[n].id, CheckID: check, Chunk: model.ChunkID(d.uint32())}
	o.Status, o.Severity = model.Status(d.byte()), model.Severity(d.byte())
	o.Opened = time.Unix(0, d.int()).UTC()
	o.Output = string(d.bytes())
	p.setProblem(id, s, o)
}
