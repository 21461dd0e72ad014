package agent

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	factsEvery    = time.Minute // how often the machine is measured anew, give or take a quarter
	resolveEvery  = time.Hour   // how often the resolver is asked for the machine's full name
	resolveWithin = 5 * time.Second
)

// watchFacts measures the machine anew until ctx ends, and wakes the link when something
// differs. The resolver is asked here, where nobody waits: at the start and then rarely.
func (a *Agent) watchFacts(ctx context.Context) {
	every := a.cfg.FactsEvery
	var ask uint64 // on the boot clock, ms
	for {
		if now := a.cfg.Machine.BootMs(); a.cfg.Machine.Resolve != nil && now >= ask {
			ask = now + uint64(resolveEvery.Milliseconds())
			within, cancel := context.WithTimeout(ctx, resolveWithin)
			a.cfg.Machine.Resolve(within)
			cancel()
		}
		if a.measure() {
			select {
			case a.remeasured <- struct{}{}:
			default:
			}
		}
		if pause.For(ctx, every-every/4+rand.N(every/2+1)) != nil {
			return
		}
	}
}

// measure looks at the machine and says whether it differs from the last look.
func (a *Agent) measure() bool {
	now := a.cfg.Machine.Facts()
	before := a.measured.Swap(&now)
	return before == nil || !maps.Equal(*before, now)
}

// said is what the server is told of the machine. The maps are shared: nobody changes them.
func (a *Agent) said() wire.Facts {
	return wire.Facts{Labels: a.cfg.Labels, Facts: *a.measured.Load(), Groups: a.cfg.Groups}
}
