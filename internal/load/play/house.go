package play

import (
	"context"
	"maps"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// house is the timetable of session ticks and keepalives, in rounds: each agent has a time of its own in every round.
type house struct{ begun, every, agents int64 }

// houseTick is the shortest sleep of KeepHouse.
const houseTick = 5 * time.Millisecond

// turn returns the time of an agent's tick in a round.
func (h house) turn(agent int, round int64) int64 {
	return h.begun + round*h.every + int64(agent)*h.every/h.agents
}

// next returns the time of an agent's first tick that is not before at.
func (h house) next(agent int, at int64) int64 {
	first := h.turn(agent, 0)
	if at <= first {
		return first
	}
	return h.turn(agent, (at-first+h.every-1)/h.every)
}

// HouseEvery returns the time between two rounds: at most half of the shortest keepalive interval.
func HouseEvery(sc *scenario.Scenario) time.Duration {
	every := 5 * time.Second
	for i := range sc.Agents {
		if k := sc.Agents[i].Keepalive; k != nil && k.Interval > 0 {
			every = min(every, time.Duration(k.Interval)/2)
		}
	}
	return every
}

// KeepHouse ticks the sessions and sends keepalives. It skips rounds whose time is over: their keepalives leave in the
// next round, with the delay as their lag.
func (f *Fleet) KeepHouse(ctx context.Context) {
	h := house{f.Now(), int64(HouseEvery(f.cfg.Scenario)), int64(len(f.agents))}
	for round := int64(0); h.agents > 0; round = max(round+1, (f.Now()-h.begun)/h.every) {
		for i, a := range f.agents {
			if wait := time.Duration(h.turn(i, round) - f.Now()); wait > 0 {
				pause.For(ctx, max(wait, houseTick))
			}
			if ctx.Err() != nil {
				return
			}
			a.mu.Lock()
			s, away := a.session, a.fate.back != nil
			a.mu.Unlock()
			if away {
				continue
			}
			if s != nil {
				s.Tick(time.Now())
			}
			now := f.Now()
			a.alive(now, func(at int64) int64 { return h.next(i, at) })
			a.tellAboutItself(now)
			a.tellFacts()
		}
	}
}

// statsEvery is how often a simulated agent tells about itself, as real ones do.
const statsEvery = int64(time.Minute)

// tellAboutItself sends statistics of the agent once a minute: a simulated agent starts no process, skips no run and
// keeps its spool in memory.
func (a *agent) tellAboutItself(now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil || a.fate.back != nil || now < a.statsAt {
		return
	}
	a.statsAt = now + statsEvery
	held := a.holds()
	x := wire.Stats{
		UptimeMs: uint64(now / 1e6), Spooled: held.Last + 1 - held.First, SpoolBytes: uint64(a.spooled), OldestMs: held.OldestAgeMs,
		Runs: a.runs, BytesSent: a.sentBytes + a.session.Sent(), Refused: a.ledger.Refused, Lost: a.lost,
	}
	_ = a.session.Stats(&x) // the session's reader hears why it broke
}

// tellFacts sends the facts of the machine if they changed after the session began.
func (a *agent) tellFacts() {
	if a.fleet.cfg.Facts == nil {
		return
	}
	now := a.fleet.cfg.Facts(a.index)
	a.mu.Lock()
	s, same := a.session, maps.Equal(now, a.facts)
	a.mu.Unlock()
	if s != nil && !same && s.SendFacts(&wire.Facts{Facts: now}) == nil {
		a.mu.Lock()
		a.facts = now
		a.mu.Unlock()
	}
}
