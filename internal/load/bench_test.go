package load

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// silent is a session that accepts frames and never answers.
type silent struct{}

func (silent) Read() error                                    { return nil }
func (silent) Stats(*wire.Stats) error                        { return nil }
func (silent) SendFacts(*wire.Facts) error                    { return nil }
func (silent) Sent() uint64                                   { return 0 }
func (silent) SendFrame(wire.StreamKey, uint64, []byte) error { return nil }
func (silent) MaxBatch() int                                  { return wire.MaxFrame }
func (silent) Tick(time.Time)                                 {}
func (silent) Bye(string)                                     {}
func (silent) Close()                                         {}

// BenchmarkGenerate generates one output of 100 bytes.
func BenchmarkGenerate(b *testing.B) {
	d := &outputs.Digits{Size: 100, Changes: 0.02}
	var out []byte
	b.ReportAllocs()
	for i := range b.N {
		out = d.Output(out[:0], i%2000, i%40, nil, uint64(i), d.Status(i%2000, i%40, nil, uint64(i), model.OK, false))
	}
}

// BenchmarkFrame does the loader's work for the results of 2,000 agents, without the session: timetable, output, frame,
// acknowledgement, ledger, tally.
func BenchmarkFrame(b *testing.B) {
	const agents, checks, perFrame = 2000, 40, 5
	cfg, err := Config{Server: "x:1", Scenario: scenario.Uniform{Agents: agents, Checks: checks, PerFrame: perFrame}.Scenario()}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	r, err := newRun(cfg)
	if err != nil {
		b.Fatal(err)
	}
	set := &checkSet{}
	for i := range checks {
		set.definitions = append(set.definitions, &model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(100 + i)}})
	}
	r.follow(score{{To: int64(time.Hour), Rate: 1, Measured: true}})
	r.deal()
	for _, a := range r.agents {
		a.session, a.set = silent{}, set
		a.status, a.ledger.states = make([]model.Status, checks), make(observe.Entries, checks)
	}
	s := r.senders[0]
	ack := &wire.Ack{Last: make([]wire.StreamLast, 1)}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		l := s.lanes[0]
		at := l.slots[i%len(l.slots)]
		s.result(item{int(at.agent), int(at.check), 0, uint64(i), false}, r.now())
		if a := s.agents[at.agent]; a.filling == nil {
			ack.Last[0] = wire.StreamLast{StreamKey: wire.StreamKey{Stream: a.stream}, Last: a.ledger.sent}
			a.ack(ack)
		}
		if len(s.linger) > 10*agents {
			s.linger = s.linger[:0]
		}
	}
}
