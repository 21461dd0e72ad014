package muster

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// keepHouse is the one timer of all sessions: it moves the clock, reads limits again, pings silent agents and closes dead
// connections.
func (s *Server) keepHouse(ctx context.Context) {
	s.clock.Run(ctx, s.cfg.Now, func(_ time.Time, now int64) {
		s.limiter.Refresh()
		s.acks.nudge()
		s.pushes.nudge()
		s.registry.ForEach(func(x *session) { s.tend(x, now) })
	})
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
	if told := x.maxOutput.Load(); told != 0 && told != int64(x.budget.Limits().OutputBytes) {
		x.tell(wire.Refuse{Code: "changed", Message: "the limit of output was changed: the session begins anew", RetryMs: s.jitterMs(changedRetry)})
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
