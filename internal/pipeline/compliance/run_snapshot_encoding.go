package compliance

import (
	"encoding/binary"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// The section compliance has the runs by node and directive. docs/snapshot-format.md has the table of fields.

// encode appends the runs and hash chains of all nodes in a partition to a snapshot.
func (p *partition) encode(b []byte) []byte {
	count := 0
	for _, n := range p.SortedNodes() {
		count += len(p.nodes[n])
	}
	b = binary.LittleEndian.AppendUint64(b, p.changed.Log)
	b = binary.AppendUvarint(b, p.changed.Number)
	b = binary.AppendUvarint(b, uint64(count))
	for _, n := range p.SortedNodes() {
		for i := range p.nodes[n] {
			b = binary.AppendUvarint(b, uint64(p.Node(n).ID))
			b = p.nodes[n][i].append(b)
		}
	}
	for _, n := range p.SortedNodes() {
		b = p.chains[n].append(b)
	}
	return b
}

// append encodes one run and appends the bytes to a snapshot.
func (r *Run) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(r.Unit))
	b = binary.AppendUvarint(b, uint64(r.Definition))
	b = binary.AppendVarint(b, r.Executed)
	b = binary.AppendVarint(b, r.Changed)
	b = binary.AppendUvarint(b, uint64(r.DurationMs))
	b = shard.AppendBool(b, r.Enforced)
	b = binary.AppendUvarint(b, uint64(r.Components))
	b = append(b, r.Codes...)
	b = shard.AppendText(b, r.EarlyEndReason())
	b = binary.AppendUvarint(b, uint64(len(r.Exceptions())))
	for _, e := range r.Exceptions() {
		b = binary.AppendUvarint(b, uint64(e.Position))
		b = shard.AppendText(b, e.Message)
	}
	return b
}

// decode reads the runs and hash chains of all nodes in a partition from the snapshot. The partition is empty
// and the shard has already decoded the nodes.
func (p *partition) decode(d *shard.Decoder, outcomes *outcomeCache) {
	p.changed = journal.Position{Log: d.Fixed64(), Number: d.Uint()}
	for range d.Count() {
		n, known := p.Find(model.NodeID(d.Uint32()))
		r := decodeRun(d)
		if d.Err() != nil {
			return
		}
		if !known {
			d.Fail("runs of an unknown node")
			return
		}
		if list := p.nodes[n]; len(list) > 0 && list[len(list)-1].Unit >= r.Unit {
			d.Fail("order of runs")
			return
		}
		if r.notes == nil {
			r.Outcome = outcomes.find(r.Outcome)
		}
		p.nodes[n] = insertRun(p.nodes[n], len(p.nodes[n]), r)
	}
	for _, n := range p.SortedNodes() {
		p.chains[n] = decodeChain(d)
	}
}

// decodeRun decodes one stored run of a directive from a snapshot.
func decodeRun(d *shard.Decoder) (r Run) {
	r.Unit = model.UnitID(d.Uint32())
	r.Outcome = &Outcome{Definition: model.DefinitionID(d.Uint32())}
	r.Executed = d.Int()
	r.Changed = d.Int()
	r.DurationMs, r.Enforced = d.Uint32(), d.Byte() == 1
	components := d.Uint32()
	if components > wire.MaxComponents {
		d.Fail("number of components")
		return r
	}
	r.Components, r.Codes = int(components), policy.NewCodes(int(components))
	for i := range r.Codes {
		r.Codes[i] = d.Byte()
	}
	if err := r.Codes.Check(r.Components); err != nil {
		d.Fail("codes of a run")
	}
	ended := string(d.Bytes())
	var exceptions []wire.ReportException
	for range d.Count() {
		exceptions = append(exceptions, wire.ReportException{Position: d.Uint32(), Message: string(d.Bytes())})
	}
	r.SetTexts(exceptions, ended)
	return r
}
