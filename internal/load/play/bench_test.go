package play

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// BenchmarkFrame does the loader's work for the results of 2,000 agents, without the session: timetable, output, frame,
// acknowledgement, ledger, tally.
func BenchmarkFrame(b *testing.B) {
	const agents, checks, perFrame = 2000, 40, 5
	r := fleetOf(b, scenario.Uniform{Agents: agents, Checks: checks, PerFrame: perFrame}.Scenario())
	set := &checkSet{}
	for i := range checks {
		set.definitions = append(set.definitions, &model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(100 + i)}})
	}
	r.Follow(plan.Timetable{{To: int64(time.Hour), Rate: 1, Measured: true}})
	r.Deal()
	for _, a := range r.agents {
		a.session, a.set = silent{}, set
		a.status, a.ledger.States = make([]model.Status, checks), make(observe.Entries, checks)
	}
	s := r.senders[0]
	ack := &wire.Ack{Last: make([]wire.StreamLast, 1)}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		l := s.lanes[0]
		at := l.slots[i%len(l.slots)]
		s.result(task{int(at.agent), int(at.check), 0, uint64(i), false}, r.Now())
		if a := s.agents[at.agent]; a.filling == nil {
			ack.Last[0] = wire.StreamLast{StreamKey: wire.StreamKey{Stream: a.stream}, Last: a.ledger.Sent}
			a.Acked(nil, ack)
		}
		if len(s.linger) > 10*agents {
			s.linger = s.linger[:0]
		}
	}
}
