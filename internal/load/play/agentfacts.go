package play

import (
	"maps"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

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
		Runs: a.runs, BytesSent: a.sentBytes + a.session.Sent(), Refused: a.ledger.refused, Lost: a.lost,
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
