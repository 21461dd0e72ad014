package muster

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// maxTick is how far the clock moves at most in one tick of a second: while the
// process was stopped, nobody could be heard, so nobody was silent.
const maxTick = 2 * time.Second

// keepHouse is the one timer of all sessions: it moves the clock, pings who is
// silent and closes who is dead.
func (s *Server) keepHouse(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := s.cfg.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		at := s.cfg.Now()
		now := s.clock.Add(int64(min(max(0, at.Sub(last)), maxTick)))
		last = at
		s.refreshTeams()
		s.acks.nudge()
		s.pushes.nudge()
		s.registry.each(func(x *session) { s.tend(x, now) })
	}
}

// changedRetry is how soon a session begins anew after a change of its limits: not all of
// a namespace in one second.
const changedRetry = 6 * time.Second

// tend ends a session whose agent cuts outputs to another length than is allowed by now:
// it would lose, or cut, results for as long as the session lasts. It pings or closes a
// silent session. One whose reader waits (for the journal, or
// for a limit) is not silent, we are: it is pinged, so that the agent does not take
// us for dead, and left alone.
func (s *Server) tend(x *session, now int64) {
	if told := x.maxOutput.Load(); told != 0 && told != int64(x.team.limits.Load().OutputBytes) {
		x.tell(wire.Refuse{Code: "changed", Sentence: "the limit of output was changed: the session begins anew", RetryMs: s.jitterMs(changedRetry)})
		return
	}
	silent := now - x.heard.Load()
	switch {
	case silent > int64(s.cfg.Limits.DeadAfter) && !x.paused.Load():
		x.due(lanePush, dueClose)
	case silent > int64(s.cfg.Limits.PingAfter) && now-x.pinged.Load() > int64(s.cfg.Limits.PingAfter):
		x.pinged.Store(now)
		x.due(laneAck, duePing)
	}
}
