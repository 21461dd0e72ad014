package nodes

import (
	"net/netip"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/tries"
)

// attempts throttles wrong secrets by network, as tries.Limiter does, but counts a secret that is
// shown again only once: a repetition finds nothing out. A hundred agents behind one address whose
// join token was deleted are one attempt.
type attempts struct {
	*tries.Limiter
	now func() time.Time

	mu   sync.Mutex
	last map[secretAttempt]time.Time // time of the last attempt
}

type secretAttempt struct {
	net    netip.Prefix
	secret string // a name for the secret, never the secret itself
}

const (
	// attemptMemory is the time for which a secret is remembered after its last attempt.
	attemptMemory = 24 * time.Hour
	// maxAttempts bounds the table. When it is full of secrets within attemptMemory, every attempt
	// counts.
	maxAttempts = 10_000
)

func newAttempts(now func() time.Time) *attempts {
	return &attempts{Limiter: tries.New(now), now: now, last: map[secretAttempt]time.Time{}}
}

// count counts a wrong attempt; secret is a name for the secret, empty where it has none.
func (g *attempts) count(address, secret string) {
	if secret != "" && g.repeated(secretAttempt{tries.Network(address), secret}) {
		return
	}
	g.Allow(address)
}

// repeated reports whether the network has shown the secret before, and remembers it.
func (g *attempts) repeated(one secretAttempt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	last, ok := g.last[one]
	if !ok && len(g.last) >= maxAttempts {
		for other, at := range g.last {
			if now.Sub(at) > attemptMemory {
				delete(g.last, other)
			}
		}
		if len(g.last) >= maxAttempts {
			return false
		}
	}
	g.last[one] = now
	return ok && now.Sub(last) <= attemptMemory
}
