package load

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

// drain waits for the last acknowledgements.
func (r *run) drain(ctx context.Context) {
	deadline := time.Now().Add(r.cfg.Drain)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		left := 0
		for _, a := range r.agents {
			a.mu.Lock()
			if !a.ledger.gone {
				left += len(a.held)
			}
			a.mu.Unlock()
		}
		if left == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// settle compares with the view, which may still be applying the last commits: a
// difference is believed once it stays the same for two seconds.
func (r *run) settle(ctx context.Context, before baseline) (*report.Balance, error) {
	last, same := uint64(0), 0
	for {
		b, err := r.balance(ctx, before)
		if err != nil || b.OK() || same == 2 {
			return b, err
		}
		if now := b.Imbalances + b.Missing; now != last {
			last, same = now, 0
		}
		same++
		pause(ctx, time.Second)
		if err := ctx.Err(); err != nil {
			return b, err
		}
	}
}

// bye ends all sessions as planned.
func (r *run) bye() {
	for _, a := range r.agents {
		a.mu.Lock()
		s, l, away := a.session, a.fate.line, a.fate.back != nil
		a.mu.Unlock()
		if away {
			hangUp(s, l)
		} else if s != nil {
			s.Bye("the load run is over")
		}
	}
}
