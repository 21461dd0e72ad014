package event

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// The section events holds the states of nodes that have any, nodes by id and states by
// check, then absences by node and check. Indexes, slots and the heap are not in it, so
// that two views that got here by different ways write the same bytes.
// docs/snapshot-format.md has the table of fields.

// encode appends the events of the partition to a snapshot, node by node
func (p *eventPartition) encode(b []byte) []byte {
	count := 0
	for _, n := range p.SortedNodes() {
		if len(p.nodes[n].states) > 0 {
			count++
		}
	}
	b = binary.AppendUvarint(b, uint64(count))
	var before model.NodeID
	for _, n := range p.SortedNodes() {
		if len(p.nodes[n].states) == 0 {
			continue
		}
		id := p.Node(n).ID
		b = binary.AppendUvarint(b, uint64(id-before))
		before = id
		b = p.encodeStates(b, n)
	}
	return p.absent.Encode(b, compareState, func(b []byte, key stateKey) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(key.node)), uint64(key.check))
	})
}

// compareState compares two event states in the order of their node, and then of their check
func compareState(x, y stateKey) int {
	return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.check, y.check))
}

// encodeStates appends the event states of one node to a snapshot section.
func (p *eventPartition) encodeStates(b []byte, n uint32) []byte {
	states := p.nodes[n].states
	b = binary.AppendUvarint(b, uint64(len(states)))
	var before model.CheckID
	for _, e := range states {
		b = binary.AppendUvarint(b, uint64(e.check-before))
		before = e.check
		b = shard.AppendText(b, p.instance(p.slots.slot(e.slot)))
		b = p.encodeState(b, p.Node(n).LastSeen, e.slot)
	}
	return b
}

// encodedRuns is the flag of a state in a snapshot that has runs. In memory eventPartition.runs says it, and the bit is
// flagTrigger.
const encodedRuns = 1 << 7

// encodeState appends one event state to a snapshot. Each time is stored as a short difference to another time of the
// state.
func (p *eventPartition) encodeState(b []byte, lastSeen int64, id uint32) []byte {
	s, runs := p.slots.slot(id), p.runs[id]
	flags := byte(s.flags &^ flagTrigger)
	if runs != nil {
		flags |= encodedRuns
	}
	b = append(b, byte(s.status), byte(s.severity), flags, s.historyLen)
	b = binary.AppendUvarint(b, uint64(s.definition))
	b = binary.AppendUvarint(b, s.history)
	b = binary.AppendUvarint(b, uint64(s.streak))
	b = binary.AppendUvarint(b, uint64(s.occurrences))
	b = binary.AppendUvarint(b, uint64(s.watermark))
	b = binary.AppendUvarint(b, uint64(s.stateChanges))
	b = binary.AppendUvarint(b, uint64(s.duration()))
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
	b = append(b, p.outputs.text(s.output)...)
	if s.flags&flagProxied != 0 {
		b = binary.AppendUvarint(b, uint64(p.runners[id]))
	}
	if runs != nil {
		b = appendRuns(b, runs)
	}
	if s.flags&flagProblemOpen == 0 {
		return b
	}
	o := p.problems[id]
	b = shard.AppendText(b, o.ID)
	b = binary.AppendUvarint(b, uint64(o.Definition))
	b = append(b, byte(o.Status), byte(o.Severity))
	b = binary.AppendVarint(b, o.Opened.UnixNano())
	b = shard.AppendText(b, o.Output)
	b = binary.AppendUvarint(b, uint64(o.KeptOutputs))
	b = binary.AppendUvarint(b, uint64(len(o.Labels)))
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		b = shard.AppendText(shard.AppendText(b, name), o.Labels[name])
	}
	b = shard.AppendText(b, o.Description)
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

// decode decodes the events of a partition from a snapshot. The partition is empty and the shard has decoded its
// nodes.
func (p *eventPartition) decode(d *shard.Decoder) {
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
	p.absent.Decode(d, func(d *shard.Decoder) stateKey {
		return stateKey{model.NodeID(d.Uint32()), model.CheckID(d.Uint32())}
	})
}

// decodeStates reads the event states of one node from a snapshot section.
func (p *eventPartition) decodeStates(d *shard.Decoder, n uint32) {
	states := d.Count()
	if states == 0 {
		d.Fail("a node without states")
		return
	}
	p.nodes[n].states = make([]nodeState, 0, states+states/8)
	var check model.CheckID
	before := ""
	for k := range states {
		step := d.Uint32()
		next, instance := check+model.CheckID(step), string(d.Bytes())
		if k > 0 && (next < check || next == check && instance <= before) {
			d.Fail("states out of order")
		}
		if d.Err() != nil {
			return
		}
		check, before = next, instance
		p.decodeState(d, n, check, instance)
	}
}

// decodeState reads one event state from a snapshot section.
func (p *eventPartition) decodeState(d *shard.Decoder, n uint32, check model.CheckID, instance string) {
	id, s := p.addState(n, check, instance)
	status, severity := model.Status(d.Byte()), model.Severity(d.Byte())
	flags := slotFlags(d.Byte())
	s.historyLen = d.Byte()
	if status > model.Unknown || severity > model.Disaster || s.historyLen > model.HistoryDepth {
		d.Fail("status out of range")
		return
	}
	p.setStatusAndSeverity(id, s, status, severity)
	s.definition = model.DefinitionID(d.Uint32())
	s.history = d.Uint() & historyMask
	s.streak = d.Uint32()
	s.occurrences = d.Uint32()
	s.watermark = d.Uint32()
	s.stateChanges = d.Uint32()
	if duration := d.Uint32(); instance == "" {
		s.durationMs = duration
	}
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
	if flags&flagExtra != 0 && !isValidExtra(text) {
		d.Fail("extra fields of an output")
		return
	}
	s.output = p.outputs.setText(outputRef{}, text)
	s.flags = flags&(flagExpired|flagBacklog|flagAwaitsHeartbeat|flagFlapping|flagExtra) | s.flags&flagTrigger
	if flags&flagProxied != 0 {
		p.setRunner(id, s, model.NodeID(d.Uint32()))
	}
	if flags&encodedRuns != 0 {
		p.runs[id] = decodeRuns(d)
	}
	if flags&flagProblemOpen == 0 {
		return
	}
	o := &model.Problem{ID: string(d.Bytes()), NodeID: p.Node(n).ID, Source: p.source(s), Definition: model.DefinitionID(d.Uint32())}
	o.Status, o.Severity = model.Status(d.Byte()), model.Severity(d.Byte())
	o.Opened = time.Unix(0, d.Int()).UTC()
	o.Output = string(d.Bytes())
	o.KeptOutputs = int(d.Uint32())
	for range d.Count() {
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		name := string(d.Bytes())
		o.Labels[name] = string(d.Bytes())
	}
	o.Description = string(d.Bytes())
	if d.Byte() != 0 {
		o.Ack = &model.Ack{By: string(d.Bytes()), Note: string(d.Bytes()), At: unixNano(d.Int())}
		if until := d.Int(); until != 0 {
			o.Ack.Until = unixNano(until)
		}
	}
	p.setProblem(id, s, o)
}

// appendRuns appends the run history of an event state to a snapshot section
func appendRuns(b []byte, h *runHistory) []byte {
	b = append(b, h.count)
	for _, run := range h.list[model.HistoryDepth-int(h.count):] {
		b = binary.AppendUvarint(b, uint64(run.Executed))
		b = binary.AppendUvarint(b, uint64(run.ExitCode))
	}
	return b
}

// decodeRuns reads the run history of an event state from a snapshot section
func decodeRuns(d *shard.Decoder) *runHistory {
	h := &runHistory{count: d.Byte()}
	if h.count == 0 || h.count > model.HistoryDepth {
		d.Fail("number of runs out of range")
		return new(runHistory)
	}
	for i := model.HistoryDepth - int(h.count); i < model.HistoryDepth; i++ {
		h.list[i] = Run{Executed: d.Uint32(), ExitCode: d.Uint32()}
	}
	return h
}
