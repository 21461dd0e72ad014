package react

import (
	"context"
	"time"
)

const (
	// aliveInterval is the time between two records of the time up to which history is complete.
	aliveInterval = 20 * time.Second
	// aliveSlack is added to the recorded time: problems that opened later are unknown to history.
	aliveSlack = 3 * aliveInterval
)

// recordAlive writes the time up to which history is complete. A problem that is open in the view at the next
// start and opened later, opened after the copy was made from which history was restored. While
// reconciliation is due nothing is written: if this server ends now, the next has to reconcile.
func (r *Reactor) recordAlive(ctx context.Context) {
	now := r.opts.Now()
	if r.reconciliation != nil || !r.aliveRecorded.IsZero() && now.Sub(r.aliveRecorded) < aliveInterval {
		return
	}
	r.aliveRecorded = now
	until := now
	if _, since, waits, _ := r.backlog.oldest(); waits {
		until = time.Unix(0, since)
	}
	if err := r.opts.Store.RecordAlive(ctx, until); err != nil && ctx.Err() == nil {
		r.opts.Logger.Debug("the time up to which history is complete could not be recorded", "err", err)
	}
}

// aliveAt reports whether history was alive when a problem opened, and so should know it.
func (r *Reactor) aliveAt(opened time.Time) bool { return !opened.After(r.aliveUntil.Add(aliveSlack)) }
