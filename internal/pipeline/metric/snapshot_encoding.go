package metric

import (
	"encoding/binary"
	"math"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/wire"
)

// The section metrics has the nodes by id with their Templates by unit, then the pending verdicts and the
// deferred values.
// docs/snapshot-format.md has the table of fields.

// encode appends the item and trigger states of all Templates in the partition to a snapshot.
func (p *metricPartition) encode(b []byte) []byte {
	count := 0
	for _, n := range p.SortedNodes() {
		count += len(p.nodes[n].units)
	}
	b = binary.AppendUvarint(b, uint64(count))
	var body []byte
	for _, n := range p.SortedNodes() {
		for _, u := range p.nodes[n].units {
			b = binary.AppendUvarint(b, uint64(p.Node(n).ID))
			b = binary.AppendUvarint(b, uint64(u.ID))
			b = shard.AppendText(b, u.macros)
			body = u.encode(body[:0])
			b = binary.AppendUvarint(b, uint64(len(body)))
			b = append(b, body...)
		}
	}
	for _, n := range p.SortedNodes() {
		b = binary.AppendVarint(b, p.deadlines.Due(n))
		b = binary.AppendVarint(b, p.nodes[n].timeOffset)
		b = appendClocks(b, p.nodes[n].clocks)
		b = appendLogPositions(b, p.nodes[n].logs)
	}
	b = binary.AppendUvarint(b, uint64(len(p.pending)))
	for i := range p.pending {
		v := &p.pending[i]
		body = wire.AppendRecord(body[:0], &wire.Record{Kind: wire.RecordVerdict, Node: v.Node, Verdict: &v.Verdict})
		b = binary.AppendUvarint(b, uint64(len(body)))
		b = append(b, body...)
	}
	return p.encodeDeferred(b)
}

// encode appends the item and trigger states of one Template on one node to a snapshot.
func (u *templateState) encode(b []byte) []byte {
	b = binary.AppendVarint(b, int64(u.limit))
	for i, s := range u.materialized {
		b = appendRuleState(b, s)
		waits := u.discovered[i] != s
		if b = shard.AppendBool(b, waits); waits {
			b = appendRuleState(b, u.discovered[i])
		}
	}
	for i := range u.slots {
		s := &u.slots[i]
		b = binary.AppendVarint(b, s.at)
		b = appendValue(b, s.value)
		b = shard.AppendText(b, s.reason)
		if s.prep != nil {
			b = s.prep.Append(b)
		}
	}
	for i := range u.triggers {
		t := &u.triggers[i]
		b = shard.AppendBool(b, t.judged)
		b = shard.AppendText(b, t.unknown)
		if t.problem != nil {
			b = t.problem.Append(b)
		}
		if t.recovery != nil {
			b = t.recovery.Append(b)
		}
	}
	if len(u.windows) > 0 {
		b = binary.AppendVarint(b, u.computed)
	}
	for _, windows := range u.windows {
		b = windows.Append(b)
	}
	return b
}

// appendValue appends a value to a snapshot, as its kind and then 8 bytes or a text.
func appendValue(b []byte, v item.Value) []byte {
	b = append(b, byte(v.Kind()))
	switch v.Kind() {
	case item.FloatValue:
		return appendFloat(b, v.Float())
	case item.UnsignedValue:
		return binary.AppendUvarint(b, v.Unsigned())
	case item.TextValue:
		return shard.AppendText(b, v.String())
	}
	return b
}

// decode reads the item and trigger states of all Templates in a partition from a snapshot. The partition is
// empty and the shard has decoded its nodes. The state of a Template whose definition is no longer known is
// left out.
func (p *metricPartition) decode(v *View, d *shard.Decoder) {
	for range d.Count() {
		n, known := p.Find(model.NodeID(d.Uint32()))
		definition, macros, body := model.DefinitionID(d.Uint32()), string(d.Bytes()), d.Bytes()
		if !known {
			d.Fail("items of an unknown node")
		}
		if d.Err() != nil {
			return
		}
		of := v.opts.Definitions(definition).AsTemplate()
		if of == nil {
			continue
		}
		t := v.template(of, macros)
		u, ok := v.decodeTemplateState(t, body)
		at, other := p.nodes[n].findTemplate(t.Unit)
		if !ok || other != nil || at < len(p.nodes[n].units) {
			d.Fail("state of a template")
			return
		}
		p.nodes[n].units = append(p.nodes[n].units, u)
	}
	for _, n := range p.SortedNodes() {
		if due := d.Int(); due > 0 {
			p.deadlines.Set(n, due)
		}
		p.nodes[n].timeOffset = d.Int()
		p.nodes[n].clocks = decodeClocks(d)
		p.nodes[n].logs = decodeLogPositions(d)
	}
	for range d.Count() {
		var r wire.Record
		if err := r.Decode(d.Bytes()); err != nil || r.Kind != wire.RecordVerdict {
			d.Fail("pending verdict")
			return
		}
		r.Verdict.Output = append([]byte(nil), r.Verdict.Output...)
		p.sequence++
		p.pending = append(p.pending, Verdict{Node: r.Node, Verdict: *r.Verdict, sequence: p.sequence})
	}
	p.decodeDeferred(v, d)
}

// decodeTemplateState decodes the item and trigger states of one Template on one node from a snapshot.
func (v *View) decodeTemplateState(t *template, body []byte) (u *templateState, ok bool) {
	d := shard.NewDecoder(body)
	limit, made := changeLimit(d.Int()), emptyRuleStates(t)
	found := make([]*discovery.State, len(made))
	for i := range made {
		made[i] = decodeRuleState(d)
		if found[i] = made[i]; d.Byte() != 0 {
			found[i] = decodeRuleState(d)
		}
		if d.Err() != nil {
			return nil, false
		}
	}
	t = v.withEntities(t, made)
	u = newTemplateState(t, 0)
	u.limit, u.materialized, u.discovered = limit, made, found
	for i := range u.slots {
		s := &u.slots[i]
		s.at = d.Int()
		s.value = decodeValue(d)
		s.reason = string(d.Bytes())
		if s.prep != nil && d.Err() == nil {
			state, rest, err := prep.DecodeState(d.Rest())
			if err != nil {
				return nil, false
			}
			*s.prep, d = state, shard.NewDecoder(rest)
		}
	}
	for i := range u.triggers {
		state, of := &u.triggers[i], &t.triggers[i]
		state.judged, state.unknown = d.Byte() != 0, string(d.Bytes())
		if d.Err() != nil {
			return nil, false
		}
		if of.problem == nil {
			continue
		}
		var rest []byte
		var err error
		if state.problem, rest, err = of.problem.Decode(d.Rest()); err != nil {
			return nil, false
		}
		if of.recovery != nil {
			if state.recovery, rest, err = of.recovery.Decode(rest); err != nil {
				return nil, false
			}
		}
		d = shard.NewDecoder(rest)
	}
	if len(u.windows) > 0 {
		u.computed = d.Int()
	}
	for i := range u.windows {
		if d.Err() != nil {
			return nil, false
		}
		windows, rest, err := t.formulas[i].program.Decode(d.Rest())
		if err != nil {
			return nil, false
		}
		u.windows[i], d = windows, shard.NewDecoder(rest)
	}
	return u, d.Err() == nil && len(d.Rest()) == 0
}

// decodeValue reads a value that appendValue wrote.
func decodeValue(d *shard.Decoder) item.Value {
	switch kind := item.Kind(d.Byte()); kind {
	case item.None:
	case item.FloatValue:
		return item.FromFloat(decodeFloat(d))
	case item.UnsignedValue:
		return item.FromUnsigned(d.Uint())
	case item.TextValue:
		return item.FromText(string(d.Bytes()))
	default:
		d.Fail("kind of a value")
	}
	return item.Value{}
}

// appendFloat appends a floating-point number as eight bytes.
func appendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// decodeFloat reads a float that appendFloat wrote.
func decodeFloat(d *shard.Decoder) float64 { return math.Float64frombits(d.Fixed64()) }
