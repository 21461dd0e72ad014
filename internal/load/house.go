package load

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// house is the timetable of session ticks and keepalives, in rounds: each agent has a time of its own in every round.
type house struct{ begun, every, agents int64 }

// houseTick is the shortest sleep of keepHouse.
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

// houseEvery returns the time between two rounds: at most half of the shortest keepalive interval.
func (r *run) houseEvery() time.Duration {
	every := 5 * time.Second
	for i := range r.cfg.Scenario.Agents {
		if k := r.cfg.Scenario.Agents[i].Keepalive; k != nil && k.Interval > 0 {
			every = min(every, time.Duration(k.Interval)/2)
		}
	}
	return every
}

// keepHouse ticks the sessions and sends keepalives. It skips rounds whose time is over: their keepalives leave in the
// next round, with the delay as their lag.
func (r *run) keepHouse(ctx context.Context) {
	h := house{r.now(), int64(r.houseEvery()), int64(len(r.agents))}
	for round := int64(0); h.agents > 0; round = max(round+1, (r.now()-h.begun)/h.every) {
		for i, a := range r.agents {
			if wait := time.Duration(h.turn(i, round) - r.now()); wait > 0 {
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
			now := r.now()
			a.alive(now, func(at int64) int64 { return h.next(i, at) })
			a.tellAboutItself(now)
			a.tellFacts()
		}
	}
}
