package event

import (
	"cmp"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// decode reads the section events into an empty partition, whose nodes the shard has decoded.
func (p *partition) decode(d *shard.Decoder) {
	var id model.NodeID
	for i := range d.Count() {
		step := d.Uint32()
		next := id + model.NodeID(step)
		n, known := p.Find(next)
		switch {
		case i > 0 && next <= id:
			d.Fail("nodes out of order")
		case !known:
			d.Fail("states of an unknown node")
		}
		if d.Err() != nil {
			return
		}
		id = next
		p.decodeStates(d, n)
	}
	for range d.Count() {
		key := stateKey{model.NodeID(d.Uint32()), model.CheckID(d.Uint32())}
		p.addAbsence(key, shard.Tombstone{At: d.Int(), Deleted: d.Byte() != 0})
	}
	slices.SortStableFunc(p.absences, func(x, y absentSince) int { return cmp.Compare(x.at, y.at) })
}

func (p *partition) decodeStates(d *shard.Decoder, n uint32) {
	states := d.Count()
	if states == 0 {
		d.Fail("a node without states")
		return
	}
	p.nodes[n].states = make([]nodeState, 0, states+states/8)
	var check model.CheckID
	for k := range states {
		step := d.Uint32()
		next := check + model.CheckID(step)
		if k > 0 && next <= check {
			d.Fail("states out of order")
		}
		if d.Err() != nil {
			return
		}
		check = next
		p.decodeState(d, n, check)
	}
}

func (p *partition) decodeState(d *shard.Decoder, n uint32, check model.CheckID) {
	id, s := p.addState(n, check)
	status, severity := model.Status(d.Byte()), model.Severity(d.Byte())
	flags := slotFlags(d.Byte())
	s.historyLen = d.Byte()
	if status > model.Unknown || severity > model.Disaster || s.historyLen > model.HistoryDepth {
		d.Fail("status out of range")
		return
	}
	p.mark(id, s, status, severity)
	s.chunk = model.ChunkID(d.Uint32())
	s.history = d.Uint() & historyMask
	s.streak = d.Uint32()
	s.occurrences = d.Uint32()
	s.watermark = d.Uint32()
	s.stateChanges = d.Uint32()
	s.durationMs = d.Uint32()
	s.results = d.Uint()
	s.lost = d.Uint()
	s.stream = d.Fixed64()
	s.number = d.Uint()
	s.order = model.ResultDigest(d.Fixed32())
	s.received = p.Node(n).LastSeen - d.Int()
	s.executed = s.received - d.Int()
	s.lastOK = s.executed - d.Int()
	s.changed = s.received - d.Int()
	if due := d.Int(); due > 0 {
		p.deadlines.Set(id, due)
	}
	text := d.Bytes()
	if flags&flagExtra != 0 && !validExtra(text) {
		d.Fail("extra fields of an output")
		return
	}
	s.output = p.outputs.set(outputRef{}, text)
	s.flags = flags & (flagExpired | flagBacklog | flagWaits | flagFlapping | flagExtra)
	if flags&flagProxied != 0 {
		p.setRunner(id, s, model.NodeID(d.Uint32()))
	}
	if flags&flagOpen == 0 {
		return
	}
	o := &model.Problem{ID: string(d.Bytes()), NodeID: p.Node(n).ID, Source: model.CheckSource(check), Chunk: model.ChunkID(d.Uint32())}
	o.Status, o.Severity = model.Status(d.Byte()), model.Severity(d.Byte())
	o.Opened = time.Unix(0, d.Int()).UTC()
	o.Output = string(d.Bytes())
	o.KeptOutputs = int(d.Uint32())
	if d.Byte() != 0 {
		o.Ack = &model.Ack{By: string(d.Bytes()), Note: string(d.Bytes()), At: unixNano(d.Int())}
		if until := d.Int(); until != 0 {
			o.Ack.Until = unixNano(until)
		}
	}
	p.setProblem(id, s, o)
}
