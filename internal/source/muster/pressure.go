package muster

import (
	"cmp"
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// Pressure says how full something is that fills while more comes than the server can do,
// from 0 to 1, and what agents are told of it. It is asked five times a second, also from
// several goroutines, and must not block.
type Pressure func() (share float64, reason string)

// Agents are told Slow once the fullest of all is more than half full, and again until it
// is less than a quarter full: what empties because they are slow must not have them
// return at once. It is looked at so often because a queue that holds half a second
// fills within half a second.
const (
	lookEvery = 200 * time.Millisecond
	tooFull   = 0.5
	relieved  = 0.25
	// Agents that send value blocks are told at half of that: a flood of values gives way to
	// results. Keepalives are never slowed; only a queue that is full holds them back.
	valuesFull = tooFull / 2
)

// What agents are asked for.
const (
	slowLinger = 2 * time.Second // at first; with jitter, so that they do not come together
	slowMost   = 2 * slowLinger  // where less is not enough
	slowEvery  = 4 * time.Second // the least time between two Slows to one agent
	// slowLasts is how long one holds at most; at least half a slowEvery less. It outlasts one
	// that is not sent, and ends soon after the last; then agents return by and by.
	slowLasts = 2 * slowEvery
)

// budgetFree is the share of the journal's budget that is no concern: a journal is
// usually some way up its budget. Above nine tenths, where people are told, agents are too.
const budgetFree = 0.8

// pressure is the fullest of all.
func (s *Server) pressure() (share float64, reason string) {
	st := s.cfg.Journal.Stats()
	if st.Blocked != nil {
		return 1, "the server cannot keep anything now: " + st.Blocked.Error()
	}
	share, reason = float64(st.QueuedBytes)/float64(s.cfg.Limits.JournalQueueBytes), "the server's disk is behind"
	if st.BudgetBytes > 0 {
		if used := float64(st.SizeBytes) / float64(st.BudgetBytes); (used-budgetFree)/(1-budgetFree) > share {
			share, reason = (used-budgetFree)/(1-budgetFree), "the server's journal is nearly full"
		}
	}
	for _, p := range s.cfg.Pressures {
		if own, why := p(); own > share {
			share, reason = own, why
		}
	}
	return share, reason
}

// strain says when agents are to be told, and what.
type strain struct {
	full   float64 // share from which on agents are told; zero: tooFull
	on     bool
	told   int64         // when they were told last, ns; zero: never
	linger time.Duration // what they were told last
}

// look is told how full the fullest is at now (ns); tell: agents are to be told (again).
// Who waits owes that much when it is over: they are asked for no more than helps.
func (s *strain) look(now int64, share float64) (tell bool) {
	full := cmp.Or(s.full, tooFull)
	s.on = share > full || s.on && share >= full*relieved/tooFull
	since := now - s.told
	if !s.on || s.told != 0 && since < int64(slowEvery) {
		return false
	}
	switch {
	case s.told == 0 || since >= int64(slowLasts):
		s.linger = slowLinger
	case share > full:
		s.linger = min(s.linger+slowLinger, slowMost)
	}
	s.told = now
	return true
}

// keepPace has all agents slow down while something is too full.
func (s *Server) keepPace(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	of, values := strain{}, strain{full: valuesFull}
	var since int64 // when the first of them was told; zero: all are as usual
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := s.sinceBegan()
		share, reason := s.pressure()
		if of.look(now, share) {
			if since == 0 {
				since = now
				s.cfg.Log.Warn("agents are asked for larger, rarer batches", "reason", reason)
			}
			s.registry.ForEach(func(x *session) { x.slow(now, of.linger, reason) })
		}
		if values.look(now, share) && !of.on {
			s.registry.ForEach(func(x *session) {
				if x.values.Load() {
					x.slow(now, values.linger, reason)
				}
			})
		}
		if since != 0 && now-of.told >= int64(slowLasts+wire.BackPressureEasing*of.linger) {
			s.cfg.Log.Info("agents send at their usual pace again", "after", time.Duration(now-since).Round(time.Second))
			since = 0
		}
	}
}

// slow asks at now for batches that linger for so long, unless it has just done so.
func (x *session) slow(now int64, linger time.Duration, reason string) {
	x.Mu.Lock()
	put := false
	if x.slowAt == 0 || now-x.slowAt >= int64(slowEvery) {
		x.slowAt, x.linger, x.slowFor = now, linger, reason
		put = x.dueLocked(lanePush, dueSlow)
	}
	x.Mu.Unlock()
	if put {
		x.srv.pushes.put(x)
	}
}

// lastsMs is for how long a Slow that is sent now holds.
func (s *Server) lastsMs() uint32 {
	return uint32(slowLasts.Milliseconds() - int64(s.cfg.Rand()*float64(slowEvery.Milliseconds()/2)))
}
