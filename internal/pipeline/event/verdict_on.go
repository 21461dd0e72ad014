package event

import "github.com/muster-fleet/muster/internal/model"

// Verdict is the state of an event after one result, for lines of a stream.
type Verdict struct {
	Severity    model.Severity
	Expired     bool
	Flapping    bool
	Failing     bool // not OK now
	Occurrences uint32
	Watermark   uint32
	Changed     int64  // start of this status, Unix ns
	Problem     string // id of the open one; empty: none is open
	Acked       bool
}

// VerdictOn returns the state of an event if its newest result is the one with this number of its stream,
// received at this time; false: a newer one was judged. It allocates nothing.
func (v *View) VerdictOn(node model.NodeID, check model.CheckID, stream, number uint64, received int64) (at Verdict, ok bool) {
	p := v.partitionOf(node)
	if p == nil {
		return at, false
	}
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return at, false
	}
	id, ok := p.nodes[n].find(check)
	if !ok {
		return at, false
	}
	s := p.slots.at(id)
	if s.stream != stream || s.number != number || s.received != received {
		return at, false
	}
	at = Verdict{
		Severity: s.severity, Expired: s.flags&flagExpired != 0, Flapping: s.flags&flagFlapping != 0, Failing: s.status != model.OK,
		Occurrences: s.occurrences, Watermark: s.watermark, Changed: s.changed,
	}
	if s.flags&flagOpen != 0 {
		o := p.problems[id]
		at.Problem, at.Acked = o.ID, o.Ack != nil
	}
	return at, true
}
