package agent

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

const (
	factsEvery     = time.Minute // default period of measuring, jittered by a quarter
	resolveEvery   = time.Hour   // period of asking the resolver for the machine's full name
	resolveTimeout = 5 * time.Second
)

// factWatch measures the machine's facts again and again.
type factWatch struct {
	measured atomic.Pointer[map[string]string] // the map is never changed
	changed  chan struct{}                     // capacity 1: the facts differ from before
}

func (f *factWatch) load() map[string]string { return *f.measured.Load() }

// measure stores the present facts and returns whether they differ from the last ones.
func (f *factWatch) measure(m *Machine) bool {
	now := m.Facts()
	before := f.measured.Swap(&now)
	return before == nil || !maps.Equal(*before, now)
}

// watch measures until ctx ends and wakes the link when facts change. It asks the resolver at the
// start and then once an hour: no other goroutine waits for DNS.
func (f *factWatch) watch(ctx context.Context, cfg *Config) {
	m, every := &cfg.Machine, cfg.FactsEvery
	var nextResolve uint64 // boot clock, ms
	for {
		if now := m.BootMs(); m.Resolve != nil && now >= nextResolve {
			nextResolve = now + uint64(resolveEvery.Milliseconds())
			limited, cancel := context.WithTimeout(ctx, resolveTimeout)
			m.Resolve(limited)
			cancel()
		}
		if f.measure(m) {
			select {
			case f.changed <- struct{}{}:
			default:
			}
		}
		if pause.For(ctx, every-every/4+rand.N(every/2+1)) != nil {
			return
		}
	}
}
