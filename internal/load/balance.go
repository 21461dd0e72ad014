package load

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Kinds of imbalance.
const (
	neverSent   = "acknowledged without having been sent"
	takenBack   = "acknowledgements taken back"
	refusedLate = "refused after they were acknowledged"
	lost        = "acknowledged and lost"
	overdone    = "applied more often than acknowledged"
	misnumbered = "with another last number"
	garbled     = "with another status or output"
	reordered   = "with other results or in another order"
)

// asMany is what is said of a state whose results are reordered.
const asMany = "as many results applied as were acknowledged (%d), but not these or not in this order"

// breaches is what servers said to any agent and should not have said. Its lock is taken
// under the agents'.
type breaches struct {
	mu sync.Mutex
	b  report.Balance
}

func (l *breaches) add(i report.Imbalance, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Add(i, format, args...)
}

// copyTo begins a balance with them.
func (l *breaches) copyTo(b *report.Balance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Imbalances, b.Kinds, b.Examples = l.b.Imbalances, maps.Clone(l.b.Kinds), slices.Clone(l.b.Examples)
}

// balance sums the agents' ledgers and compares them with the view. before is how
// many results each state held when the run began. The agents must be at rest. Where the view
// cannot be read, the sums are there beside the error.
func (r *run) balance(ctx context.Context, before baseline) (*report.Balance, error) {
	all := append(slices.Clip(r.agents), r.theirs...)
	b := r.sums(all)
	if r.cfg.Before == nil {
		return b, nil
	}
	c := newComparison(all, b)
	err := r.cfg.Before.Each(ctx, func(k Kept) error {
		c.state(k, before.of(k.Node, k.Check))
		return nil
	})
	if err != nil {
		return r.sums(all), err
	}
	c.absent()
	return b, nil
}

// sums are of the agents' ledgers alone, and of what servers should not have said.
func (r *run) sums(all []*agent) *report.Balance {
	b := &report.Balance{}
	r.breaches.copyTo(b)
	for _, a := range all {
		a.mu.Lock()
		l := &a.ledger
		open := l.sent - l.settled()
		b.Sent += l.sent
		b.Acknowledged += l.acked
		b.Refused += l.refused
		if l.gone {
			b.Stopped += open
		} else {
			b.Missing += open
		}
		a.mu.Unlock()
	}
	return b
}
