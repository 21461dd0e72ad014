package play

import (
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// values is the Source of values: a signal has the values of all items of a node.
type values struct {
	*plan.Plan
	definitions []model.DefinitionID // of each node's Template; zero: not assigned yet
	scratch     sync.Pool            // *valueScratch
}

// valueScratch is memory for encoding.
type valueScratch struct {
	row     []wire.BlockValue
	columns []byte
	body    []byte
}

// NewValues returns the Source of a plan of values.
func NewValues(p *plan.Plan) Source {
	return &values{p, make([]model.DefinitionID, p.Nodes), sync.Pool{New: func() any { return new(valueScratch) }}}
}

// Unit returns the unit of values.
func (v *values) Unit() report.Unit { return report.Value }

// Timetable implements Source.
func (v *values) Timetable(node int) (interval time.Duration, offsets []time.Duration) {
	class := v.Class(node)
	return class.Interval, []time.Duration{v.Plan.Offset(class, node)}
}

// Weight implements Source.
func (v *values) Weight(node int, _ uint64) int { return len(v.Class(node).Items) }

// Assigned implements Source.
func (v *values) Assigned(node int, held *link.Assignment) bool {
	class := v.Class(node)
	for _, d := range held.Definitions {
		if t := d.AsTemplate(); t != nil && t.Name == class.Name && len(t.Items) == len(class.Items) {
			v.definitions[node] = d.ID
		}
	}
	return v.definitions[node] != 0
}

// AppendSignal implements Source.
func (v *values) AppendSignal(dst []byte, node int, tick uint64, at time.Duration) []byte {
	class := v.Class(node)
	room := v.scratch.Get().(*valueScratch)
	defer v.scratch.Put(room)
	room.row = room.row[:0]
	for i := range class.Items {
		if class.Items[i].From == "" { // else the server makes it
			room.row = append(room.row, wire.BlockValue{Position: uint32(i), Value: v.Value(class, node, i, tick)})
		}
	}
	room.columns = wire.AppendColumns(room.columns[:0], []int64{int64(at % time.Millisecond)}, room.row)
	room.body = wire.AppendValueBlock(room.body[:0], &wire.ValueBlock{Rows: uint32(len(room.row)), Columns: room.columns})
	return wire.AppendSignal(dst, &wire.Signal{Kind: wire.SignalValueBlock, Definition: v.definitions[node], AtMs: uint64(at.Milliseconds()), Body: room.body})
}

// Wrong implements Source: a block of a Template that no node has.
func (v *values) Wrong(int) []wire.Signal {
	columns := wire.AppendColumns(nil, []int64{0}, []wire.BlockValue{{Value: item.FromFloat(1)}})
	return []wire.Signal{{Kind: wire.SignalValueBlock, Definition: 1 << 31, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: 1, Columns: columns})}}
}
