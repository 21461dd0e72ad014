package link

import (
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// Bounds of BackPressure, whatever the server sends: a server that needs more repeats it, and a faulty
// one silences agents for minutes only.
const (
	maxLinger = time.Minute
	maxSlow   = 5 * time.Minute
)

// Pace is the linger of results: the usual one, or a longer one while BackPressure holds. Times count
// from any start of the owner's clock. The zero Pace is the usual one. It is not safe for concurrent
// use.
type Pace struct{ linger, first, until time.Duration }

// Ask puts a BackPressure that arrived at now in force; the last one counts. share is a random number
// from 0 to 1: the first batch after a usual pace leaves after this share of the linger, because all
// agents get the message at once and would send together.
func (p *Pace) Ask(now time.Duration, m *wire.BackPressure, share float64) {
	if m.LingerMs == 0 || m.LastsMs == 0 { // the usual pace again
		*p = Pace{}
		return
	}
	slow := p.Slow(now)
	if p.linger = min(time.Duration(m.LingerMs)*time.Millisecond, maxLinger); !slow {
		p.first = now + time.Duration(share*float64(p.linger))
	}
	p.until = now + min(time.Duration(m.LastsMs)*time.Millisecond, maxSlow)
}

// Slow returns whether back-pressure holds: urgent results wait, too.
func (p *Pace) Slow(now time.Duration) bool { return p.at(now) > 0 }

// at returns the linger of a signal that arrives at since: the requested one, and after its end a
// linearly shrinking one.
func (p *Pace) at(since time.Duration) time.Duration {
	return max(0, p.linger-max(0, since-p.until)/wire.BackPressureEasing)
}

// Due returns the time at which a signal that arrived at since is sent. A linger that began under
// back-pressure is kept after its end, because all agents at once would be a flood.
func (p *Pace) Due(since, usual time.Duration) time.Duration {
	due := since + p.at(since)
	if since <= p.first {
		due = min(due, p.first)
	}
	return max(since+usual, due)
}
