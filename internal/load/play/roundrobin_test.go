package play

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

const inTurn = `scenario: muster.load/v1
proxies: [{name: switch, count: 2}]
agents:
  - name: poller
    count: 3
    checks:
      - {name: ping, interval: 10s, timeout: 2s, proxy: {groups: [switch]}, roundRobin: true}
      - {name: snmp, interval: 10s, proxy: {groups: [switch]}}
      - {name: disk, interval: 10s}
phases: [{steady: 60s}]
`

// turning is a run whose agents hold a round-robin check; the test sets its clock.
type turning struct {
	*Fleet
	ping *playing
}

// playTurns returns a run with agents that hold their checks.
func playTurns(t *testing.T) *turning {
	t.Helper()
	sc, err := scenario.Parse("turns.yaml", []byte(inTurn))
	if err != nil {
		t.Fatal(err)
	}
	sc.Defaults()
	r := fleetOf(t, sc)
	r.Follow(plan.Timetable{{From: sec64(1), To: sec64(61), Rate: 1, Measured: true}})
	r.Deal()
	r.Start(sec64(1))
	class := r.classes[0]
	set := &checkSet{definitions: make([]*model.CheckDefinition, len(class.checks)), things: make([][]model.NodeID, len(class.checks)), turns: map[wire.RoundRobinRun]placing{}}
	for i := range class.checks {
		set.definitions[i] = &model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(i + 1), Unit: model.CheckID(i + 1), Name: class.checks[i].full}, Interval: 10 * time.Second, Timeout: 2 * time.Second}
	}
	ping := &class.checks[class.index["poller-ping-000"]]
	ping.robin.learn(set.definitions[1], []model.NodeID{901, 902})
	for _, a := range r.agents {
		a.set = set
	}
	return &turning{r, ping}
}

// sec64 converts seconds to ns.
func sec64(n float64) int64 { return int64(n * 1e9) }

// turn gives an agent the run of an interval, after a delay; run also has it run and acknowledged.
func (p *turning) turn(agent int, interval int64, after time.Duration, able, run bool) {
	b, a := p.ping.robin, p.agents[agent]
	first := b.first(p.Fleet, 0, p.Begin())
	from := b.begins(p.Fleet, 0, first+interval)
	b.given(0, a, first, first+interval, from+int64(after), able)
	if run {
		p.ranAt(interval, after+time.Millisecond)
	}
}

// ranAt has a run of an interval acknowledged, after a delay.
func (p *turning) ranAt(interval int64, after time.Duration) {
	b := p.ping.robin
	b.ran(p.Fleet, 0, p.begins(interval), p.begins(interval)+int64(after))
}

// TestTurnsStandOnTheServersClock expects intervals by the server's clock, whenever the timetable of the loader starts.
func TestTurnsStandOnTheServersClock(t *testing.T) {
	p := playTurns(t)
	b, check := p.ping.robin, model.CheckID(2)
	for n, id := range []model.NodeID{901, 902} {
		phase := int64(when.Phase(directory.ProxyUID(id), check, 10*time.Second))
		slot := b.first(p.Fleet, n, sec64(5))
		from := b.begins(p.Fleet, n, slot)
		if from < sec64(5) || from >= sec64(15) || (p.Epoch.UnixNano()+from)%b.interval != phase {
			t.Errorf("thing %d: interval begins at %d, phase %d", id, from, phase)
		}
		if b.slotAt(p.Fleet, n, from) != slot || b.slotAt(p.Fleet, n, from-1) != slot-1 {
			t.Errorf("thing %d: another interval there", id)
		}
	}
	if b.patience != sec64(7) {
		t.Errorf("patience %d", b.patience)
	}
}

// TestRunsInTurnAreSeen gives agents runs, and expects those that finished, those of struck agents, and those given
// again in the record.
func TestRunsInTurnAreSeen(t *testing.T) {
	p := playTurns(t)
	p.turn(0, 0, 0, true, true)
	p.turn(1, 1, 0, true, false) // two runs: the first one came after all
	p.turn(2, 1, 7*time.Second, true, true)
	p.ranAt(1, 7*time.Second)
	p.turn(0, 2, 0, false, false) // struck, both
	p.turn(1, 2, 7*time.Second, false, false)
	x := (&Script{fleet: p.Fleet, strikes: []*strike{{fault: scenario.Fault{Server: "kill"}, at: sec64(3), over: sec64(4)}}}).RoundRobin()
	if took := x.Took; took.Count() != 1 || x.From != 0 || x.End != sec64(60) || len(x.Away) != 1 || x.Away[0] != (observe.Stay{From: sec64(2), To: sec64(3)}) || len(x.Rounds) != 2 {
		t.Fatalf("%+v, %d", x, x.Took.Count())
	}
	r := x.Rounds[0]
	if r.Name != "poller-ping-000 about switch-00000" || r.Interval != sec64(10) || r.Patience != sec64(7) || r.First != p.begins(0)-sec64(1) || !bytes.Equal(r.Marks, []byte{observe.Given + 1, observe.Given + 2}) ||
		len(r.Stuck) != 1 || r.Stuck[2].Times != 2 || len(x.Rounds[1].Marks) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestRunsInTurnAreGivenAgain gives a run to a second agent, and expects a fault if the first one still had time or had
// finished, else the time of the takeover.
func TestRunsInTurnAreGivenAgain(t *testing.T) {
	for name, c := range map[string]struct {
		story        func(p *turning)
		again, taken int
	}{
		"to two at once": {func(p *turning) {
			p.turn(0, 0, 0, true, true)
			p.turn(0, 1, 0, true, false)
			p.turn(1, 1, 20*time.Millisecond, true, true)
			p.turn(2, 2, 0, true, false)
			p.turn(1, 2, time.Millisecond, true, true)
		}, 2, 0},
		"to the same one again": {func(p *turning) {
			p.turn(0, 0, 0, true, true)
			p.turn(0, 1, 0, true, false)
			p.turn(0, 1, time.Second, true, true)
		}, 1, 0},
		"though its run was acknowledged": {func(p *turning) {
			p.turn(0, 0, 0, true, true)
			p.turn(0, 1, 0, true, true)
			p.turn(1, 1, 7*time.Second, true, true)
		}, 1, 0},
		"to a third one at once": {func(p *turning) {
			p.turn(0, 0, 0, true, true)
			p.turn(0, 1, 0, true, false)
			p.turn(1, 1, 7*time.Second, true, false)
			p.turn(2, 1, 7*time.Second+time.Millisecond, true, true)
		}, 1, 1},
		"after the time that one has": {func(p *turning) {
			p.turn(0, 0, 0, true, true)
			p.turn(0, 1, 0, true, false)
			p.turn(1, 1, 7*time.Second, true, true)
		}, 0, 1},
		"while its acknowledgement was on its way": {func(p *turning) {
			p.turn(0, 0, 0, true, true)
			p.turn(0, 1, 6500*time.Millisecond, true, true)
			p.turn(1, 1, 7*time.Second, true, true)
		}, 0, 1},
		"by one that hangs": {func(p *turning) {
			p.turn(0, 0, 0, true, true)
			p.turn(0, 1, 0, false, false)
			p.turn(1, 1, time.Second, true, true)
		}, 0, 1},
		"where the interval before may be meant": {func(p *turning) {
			p.turn(0, 1, 0, true, false)
			p.turn(1, 1, time.Millisecond, true, true)
		}, 0, 1},
	} {
		p := playTurns(t)
		c.story(p)
		x := (&Script{fleet: p.Fleet}).RoundRobin()
		if again := x.Rounds[0].Again; len(again) != c.again || x.Took.Count() != int64(c.taken) || c.again > 0 && (again[0].First != 0 && again[0].First != 1 || again[0].By < 0) {
			t.Errorf("%s: %+v, %d taken", name, again, x.Took.Count())
		}
	}
}

// begins returns the start of an interval of the first switch, since the start of the timetable.
func (p *turning) begins(interval int64) int64 {
	b := p.ping.robin
	return b.begins(p.Fleet, 0, b.first(p.Fleet, 0, p.Begin())+interval)
}

// TestTurnsAreRun gives agents runs, and expects results whose intended time is the start of the interval, and none
// before the timetable starts or from an agent that hangs.
func TestTurnsAreRun(t *testing.T) {
	p := playTurns(t)
	a, b := p.agents[0], p.ping.robin
	given := wire.RoundRobinRun{Definition: 2, Node: 901}
	a.set.things[1], a.set.turns[given] = []model.NodeID{901, 902}, placing{1, 0}
	a.status, a.ledger.States = make([]model.Status, 1), make(observe.Entries, 1)
	p.Epoch = time.Now().Add(-30 * time.Second)
	b.phases[0] = (p.Epoch.UnixNano() + sec64(25)) % b.interval // it is 5 s late
	a.fate.hung = true
	a.turn(given)
	if a.filling != nil {
		t.Fatal("it hangs, and ran it")
	}
	a.fate.hung = false
	p.Start(sec64(26))
	a.turn(given)
	if a.filling != nil {
		t.Fatal("its interval was before the timetable, and it ran it")
	}
	p.Start(sec64(1))
	a.turn(given)
	if a.filling == nil || len(a.filling.each) != 1 {
		t.Fatalf("%+v", a.filling)
	}
	s := a.filling.each[0]
	if s.about != 1 || s.intended != sec64(25) || s.late < 490 || s.late > 1500 || a.filling.due < sec64(30) {
		t.Errorf("%+v, leaves at %d", s, a.filling.due)
	}
	synctest.Test(t, func(t *testing.T) {
		a.leave(0)
		p.Epoch = time.Now().Add(-30 * time.Second)
		if a.turn(given); a.filling == nil {
			t.Fatal("it ran nothing")
		}
		if time.Sleep(time.Minute); a.filling != nil || len(a.held) != 2 {
			t.Errorf("after its linger, %d frames left", len(a.held))
		}
	})
}

// TestTheLastResultOfAPair lets several agents report on one proxy node, and expects all results that may be the last
// one on the server.
func TestTheLastResultOfAPair(t *testing.T) {
	sign := func(at float64, status model.Status) *sign {
		return &sign{intended: sec64(at), status: status, digest: uint32(at*10) + 1}
	}
	one, two, three := wire.StreamID(1), wire.StreamID(2), wire.StreamID(3)
	w := &alerts.Witness{}
	p := &pair{watched: w}
	p.passed(one, 5, sign(1, model.OK), true, false, sec64(1.5))
	p.passed(two, 9, sign(10, model.Critical), true, false, sec64(10.5))
	p.passed(three, 7, sign(3, model.OK), true, false, sec64(20)) // spooled for long: late
	if len(p.Last) != 2 || p.Last[0].Stream != 2 || p.Last[1].Stream != 3 {
		t.Errorf("may be last: %+v", p.Last)
	}
	if s := w.Seen(0); s.Unclear || len(s.Must) != 1 || !s.Must[0].Open {
		t.Errorf("%+v", w)
	}
	p.passed(one, 6, sign(30, model.Critical), true, false, sec64(30.5))
	if p.passed(two, 10, sign(30.2, model.OK), true, false, sec64(30.6)); !w.Seen(0).Unclear || len(p.Last) != 2 {
		t.Errorf("who was last? %+v, %+v", w, p.Last)
	}
}
