package play

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// Turns: the server says which agent runs a check when, and nobody else keeps that time. But
// its intervals stand on the clock, each proxy node having its own place in them, so that
// the loader knows them too: what a turn was meant for is the beginning of its interval,
// however late it is given, and an interval without a run is one that the server missed.

// robin is a round-robin check, whose runs the server gives to one agent after the other; all agents of its class share
// it.
type robin struct {
	interval int64 // ns
	rounds   []round

	mu       sync.Mutex
	patience int64   // ns until a server gives a run to another
	phases   []int64 // where in the interval each round's begins, on the server's clock; nil: nobody holds the check yet
}

// round records the runs of a round-robin check, for one proxy node or for the agents themselves. Its lock is taken
// under the agents'.
type round struct {
	mu            sync.Mutex
	observe.Round        // its intervals are known once the timetable starts
	slot          int64  // number of the last slot with a turn
	since         int64  // time of the first turn in this slot, ns since the run was made
	by            *agent // agent of the last turn
	gave          int64  // time of the last turn
	able          bool   // the agent of the last turn could run the check
	plain         bool   // it was given first when it began, and the interval before had its fleet: nothing else can have been meant
	ranAt         int64  // when a run of it was acknowledged first; zero: none was
}

// placing names the check and the round to which a run belongs.
type placing struct {
	check int16
	round uint16
}

// newRobin returns a robin without runs.
func newRobin(k *scenario.Check, about *about) *robin {
	n := 1
	if about != nil {
		n = len(about.pairs)
	}
	return &robin{interval: int64(k.Interval), rounds: make([]round, n)}
}

// learn computes the intervals of the check from the ids that the server gave it and its proxy nodes.
func (b *robin) learn(definition *model.CheckDefinition, things []model.NodeID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phases != nil {
		return
	}
	b.patience = int64(definition.Timeout + min(definition.Interval*3/4, 5*time.Second))
	b.phases = make([]int64, len(things))
	for i, id := range things {
		uid := uuid.Nil
		if id != 0 {
			uid = directory.ProxyUID(id)
		}
		b.phases[i] = int64(when.Phase(uid, definition.Unit, definition.Interval))
	}
}

// early returns how much earlier than by its own clock the loader may get a run, because the clock of another machine
// differs.
func (b *robin) early(fleet *Fleet) int64 {
	if fleet.cfg.Control != nil {
		return int64(1e7)
	}
	return min(b.interval/4, int64(1e9))
}

// slotAt returns the number of the interval of a round that contains a time, in ns since the run was made.
func (b *robin) slotAt(fleet *Fleet, round int, at int64) int64 {
	return (fleet.Epoch.UnixNano() + at - b.phases[round]) / b.interval
}

// begins returns the start of an interval of a round, in ns since the run was made.
func (b *robin) begins(fleet *Fleet, round int, slot int64) int64 {
	return slot*b.interval + b.phases[round] - fleet.Epoch.UnixNano()
}

// first returns the first interval of a round that starts at a time or later.
func (b *robin) first(fleet *Fleet, round int, at int64) int64 {
	return b.slotAt(fleet, round, at-1) + 1
}

// turn runs a round-robin check now, if the agent can and the interval is within the timetable.
func (a *agent) turn(g wire.RoundRobinRun) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.set == nil {
		return
	}
	p, ok := a.set.turns[g]
	if !ok {
		return
	}
	fleet, b := a.fleet, a.class.checks[p.check].robin
	now, begin := fleet.Now(), fleet.Begin()
	if begin == 0 {
		return
	}
	n := int(p.round)
	slot := b.slotAt(fleet, n, now+b.early(fleet))
	intended := b.begins(fleet, n, slot)
	if intended < begin || intended >= fleet.Present().End() {
		return
	}
	first, able := b.first(fleet, n, begin), a.fate.back == nil && !a.fate.dead && !a.fate.hung
	b.given(n, a, first, slot, now, able)
	if !able {
		return
	}
	what := task{check: int(p.check), seq: 1<<47 | uint64(slot-first)}
	if a.class.checks[p.check].about != nil {
		what.about = n + 1
	} else {
		what.first = a.ledger.States[p.check].Results == 0 && a.status[p.check] == model.OK
	}
	if at := fleet.SecondOf(intended); at >= 0 {
		a.book.Offer(at, 1)
	}
	full, began := a.add(what, intended, now)
	if full {
		a.leave(now)
	} else if began {
		lingering{a, a.filling, a.filling.first, a.filling.due}.later()
	}
}

// given records that the server gave an agent the run of an interval.
func (b *robin) given(n int, a *agent, first, slot, now int64, able bool) {
	t := &b.rounds[n]
	t.mu.Lock()
	defer t.mu.Unlock()
	began := b.begins(a.fleet, n, slot)
	switch {
	case t.by == nil || slot > t.slot:
		t.slot, t.since, t.ranAt = slot, now, 0
		t.plain = now-began <= b.patience/4 && t.runs(slot-first-1) > 0
	case slot < t.slot:
		return // the clock was set
	case !able || began < a.fleet.Present().Zero():
	case t.able && t.plain && (now-t.gave < b.patience/2 || t.ranAt > 0 && now > t.ranAt+observe.Lull):
		begin := a.fleet.Begin()
		t.Again = append(t.Again,
			observe.Again{First: t.by.member, By: a.member, Since: t.since - begin, Before: t.gave - begin, At: now - begin})
	case t.by != a:
		a.fleet.note(func(n *notes) { n.took.Record(now-t.since, 1) })
	}
	t.by, t.gave, t.able = a, now, able
	if able {
		t.mark(slot-first, func(m byte) byte { return m | observe.Given })
		return
	}
	if t.Stuck == nil {
		t.Stuck = map[int]observe.Stuck{}
	}
	i := int(slot - first)
	t.Stuck[i] = observe.Stuck{Since: t.since - a.fleet.Begin(), Times: t.Stuck[i].Times + 1}
}

// ran records an acknowledged run in the interval of its intended time.
func (b *robin) ran(fleet *Fleet, n int, intended, now int64) {
	t := &b.rounds[n]
	slot := b.slotAt(fleet, n, intended)
	i := slot - b.first(fleet, n, fleet.Begin())
	t.mu.Lock()
	defer t.mu.Unlock()
	if slot == t.slot && t.ranAt == 0 {
		t.ranAt = now
	}
	t.mark(i, func(m byte) byte {
		if m&observe.RunsMost < observe.RunsMost {
			m++
		}
		return m
	})
}

// runs returns the number of runs of an interval. Caller holds the lock.
func (t *round) runs(i int64) byte {
	if i < 0 || i >= int64(len(t.Marks)) {
		return 0
	}
	return t.Marks[i] & observe.RunsMost
}

// mark changes the record of an interval. Caller holds the lock.
func (t *round) mark(i int64, f func(byte) byte) {
	if i < 0 {
		return
	}
	for int64(len(t.Marks)) <= i {
		t.Marks = append(t.Marks, 0)
	}
	t.Marks[i] = f(t.Marks[i])
}

// RoundRobin returns the recorded round-robin runs after all acknowledgements, or nil if there are none.
func (s *Script) RoundRobin() *observe.RoundRobin {
	if s == nil {
		return nil
	}
	fleet := s.fleet
	if !fleet.cfg.Scenario.Turns() {
		return nil
	}
	begin := fleet.Begin()
	x := &observe.RoundRobin{From: fleet.Present().Zero() - begin, End: fleet.Present().End() - begin, Away: s.awayTimes(begin)}
	for _, c := range fleet.classes {
		for i := range c.checks {
			k := &c.checks[i]
			if k.robin == nil || k.robin.phases == nil {
				continue
			}
			for n := range k.robin.rounds {
				x.Rounds = append(x.Rounds, fleet.round(c, k, n))
			}
		}
	}
	fleet.note(func(n *notes) { x.Took.Merge(n.took) })
	return x
}

// round returns the recorded runs of one round.
func (f *Fleet) round(c *class, k *playing, n int) observe.Round {
	b, begin := k.robin, f.Begin()
	x := &b.rounds[n]
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.Round
	out.Name, out.Class, out.Interval, out.Patience = k.of(n), c.number, b.interval, b.patience
	out.First = b.begins(f, n, b.first(f, n, begin)) - begin
	out.Marks, out.Stuck, out.Again = slices.Clone(out.Marks), maps.Clone(out.Stuck), slices.Clone(out.Again)
	return out
}

// of names the check and the proxy node of its n-th round.
func (k *playing) of(n int) string {
	if k.about == nil {
		return k.full
	}
	return k.full + " about " + k.about.names[n]
}
