package nodes

import (
	"net/netip"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/tries"
)

// guesses slows down who tries secrets, as tries.Limiter does, and tells one wrong secret that is
// shown again from another one: to show it again finds nothing out. A hundred agents behind
// one address whose join token was deleted are one guess.
type attempts struct {
	*tries.Limiter
	now func() time.Time

	mu   sync.Mutex
	last map[secretAttempt]time.Time // when it was shown last
}

type secretAttempt struct {
	net   netip.Prefix
	shown string // names the secret, and is none
}

const (
	// guessFor is how long one that is not shown again is remembered.
	attemptMemory = 24 * time.Hour
	// maxGuesses bounds the table: where it is full of what was shown within guessFor, every
	// try counts.
	maxAttempts = 10_000
)

func newAttempts(now func() time.Time) *attempts {
	return &attempts{Limiter: tries.New(now), now: now, last: map[secretAttempt]time.Time{}}
}

// count counts a try; shown names what was tried, and is empty where every try is another.
func (g *attempts) count(address, shown string) {
	if shown != "" && g.repeated(secretAttempt{tries.Network(address), shown}) {
		return
	}
	g.Allow(address)
}

// repeated says whether it was shown before, and remembers it.
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
