package event

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

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

func (d *decoder) fixed32() uint32 {
	if len(d.b) < 4 {
		d.fail("cut short")
		return 0
	}
	v := binary.LittleEndian.Uint32(d.b)
	d.b = d.b[4:]
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
	if version := d.byte(); d.err == nil && version != SnapshotVersion {
		return fmt.Errorf("%w: version %d, this program reads version %d", errSnapshot, version, SnapshotVersion)
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
	n.warning = d.int()
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
	s.watermark = d.uint32()
	s.stateChanges = d.uint32()
	s.durationMs = d.uint32()
	s.results = d.uint()
	s.lost = d.uint()
	s.stream = d.fixed64()
	s.number = d.uint()
	s.order = model.Order(d.fixed32())
	s.received = p.nodes[n].heard - d.int()
	s.executed = s.received - d.int()
	s.lastOK = s.executed - d.int()
	s.changed = s.received - d.int()
	if due := d.int(); due > 0 {
		p.deadlines.Set(id, due)
	}
	said := d.bytes()
	if flags&flagBeside != 0 && !wholeBeside(said) {
		d.fail("what lies beside an output")
		return
	}
	s.output = p.outputs.set(outputRef{}, said)
	s.flags = flags & (flagExpired | flagBacklog | flagWaits | flagFlapping | flagBeside)
	if flags&flagProxied != 0 {
		p.ranBy(id, s, model.NodeID(d.uint32()))
	}
	p.nodes[n].waits = p.nodes[n].waits || s.flags&flagWaits != 0
	if flags&flagOpen == 0 {
		return
	}
	o := &model.Problem{ID: string(d.bytes()), NodeID: p.nodes[n].id, Source: model.CheckSource(check), Chunk: model.ChunkID(d.uint32())}
	o.Status, o.Severity = model.Status(d.byte()), model.Severity(d.byte())
	o.Opened = time.Unix(0, d.int()).UTC()
	o.Output = string(d.bytes())
	o.Texts = int(d.uint32())
	if d.byte() != 0 {
		o.Ack = &model.Ack{By: string(d.bytes()), Note: string(d.bytes()), At: unixNano(d.int())}
		if until := d.int(); until != 0 {
			o.Ack.Until = unixNano(until)
		}
	}
	p.setProblem(id, s, o)
}
