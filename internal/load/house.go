package load

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// house is the timetable of what agents do beside their results: sessions tick, and who has sent
// nothing for a while says that it lives. Each agent has its place in every round, so that they do
// not speak all at once.
type house struct{ begun, every, agents int64 }

// houseTick is the shortest sleep of who keeps the house.
const houseTick = 5 * time.Millisecond

// turn is when an agent's turn is meant to be.
func (h house) turn(agent int, round int64) int64 {
	return h.begun + round*h.every + int64(agent)*h.every/h.agents
}

// next is an agent's first turn from an instant on.
func (h house) next(agent int, at int64) int64 {
	first := h.turn(agent, 0)
	if at <= first {
		return first
	}
	return h.turn(agent, (at-first+h.every-1)/h.every)
}

// houseEvery is how often the house is kept: at least twice in the shortest time in which
// a node must be heard of.
func (r *run) houseEvery() time.Duration {
	every := 5 * time.Second
	for i := range r.cfg.Scenario.Agents {
		if k := r.cfg.Scenario.Agents[i].Keepalive; k != nil && k.Interval > 0 {
			every = min(every, time.Duration(k.Interval)/2)
		}
	}
	return every
}

// keepHouse ticks the sessions and sends keepalives. Rounds that it missed are over: what was
// meant in them is sent in the next, and its lag says how late.
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
