package link

import (
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// What an agent takes of BackPressure at most, whatever the server says: a server that needs more
// says it again, and one that is mistaken silences nobody for long.
const (
	maxLinger = time.Minute
	maxSlow   = 5 * time.Minute
)

// Pace is for how long results wait for company: usually as long as their owner likes, for
// a while as the server asked (BackPressure). Times are on the owner's clock, from any beginning.
// The zero Pace is the usual one. It is not safe for concurrent use.
type Pace struct{ linger, first, until time.Duration }

// Ask takes over what the server asks for at now; the last one counts. Where it was not slow
// before, what waits first leaves after that share (from 0 to 1, by chance) of the time: all
// are asked at once, and would otherwise all be silent first and then come together.
func (p *Pace) Ask(now time.Duration, m *wire.BackPressure, share float64) {
	if m.LingerMs == 0 || m.LastsMs == 0 { // as usual
		*p = Pace{}
		return
	}
	slow := p.Slow(now)
	if p.linger = min(time.Duration(m.LingerMs)*time.Millisecond, maxLinger); !slow {
		p.first = now + time.Duration(share*float64(p.linger))
	}
	p.until = now + min(time.Duration(m.LastsMs)*time.Millisecond, maxSlow)
}

// BackPressure says whether nothing leaves before its time, however urgent.
func (p *Pace) Slow(now time.Duration) bool { return p.at(now) > 0 }

// at is how long what begins to wait then does so: as long as was asked, and ever shorter
// when that is over.
func (p *Pace) at(since time.Duration) time.Duration {
	return max(0, p.linger-max(0, since-p.until)/wire.BackPressureEasing)
}

// Due is when what has waited since then leaves. What began to wait while more patience was asked
// for leaves after that also where it has ended meanwhile: all at once would be a flood.
func (p *Pace) Due(since, usual time.Duration) time.Duration {
	due := since + p.at(since)
	if since <= p.first {
		due = min(due, p.first)
	}
	return max(since+usual, due)
}
