package link

import (
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// What an agent takes of Slow at most, whatever the server says: a server that needs more
// says it again, and one that is mistaken silences nobody for long.
const (
	maxLinger = time.Minute
	maxSlow   = 5 * time.Minute
	slowLasts = time.Minute // where the server does not say for how long: an older one
)

// Pace is for how long results wait for company: usually as long as their owner likes, for
// a while as the server asked (Slow). Times are on the owner's clock, from any beginning.
// The zero Pace is the usual one. It is not safe for concurrent use.
type Pace struct{ linger, until time.Duration }

// Ask takes over what the server asks for at now; the last one counts.
func (p *Pace) Ask(now time.Duration, m *wire.Slow) {
	lasts := time.Duration(m.LastsMs) * time.Millisecond
	switch {
	case m.LingerMs == 0: // as usual
		*p = Pace{}
		return
	case lasts == 0:
		lasts = slowLasts
	}
	p.linger = min(time.Duration(m.LingerMs)*time.Millisecond, maxLinger)
	p.until = now + min(lasts, maxSlow)
}

// Slow says whether nothing leaves before its time, however urgent.
func (p *Pace) Slow(now time.Duration) bool { return now < p.until }

// Due is when what has waited since then leaves. Who waits longer than usual while it is
// asked for does so until that ends, not beyond.
func (p *Pace) Due(since, usual time.Duration) time.Duration {
	return max(since+usual, min(since+p.linger, p.until))
}
