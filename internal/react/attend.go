package react

import (
	"context"
	"time"
)

// attendEach is how often it is noted in history that it is there, and attendSlack how much later than
// that a problem may have opened which it should know.
const (
	attendEach  = 20 * time.Second
	attendSlack = 3 * attendEach
)

// attend notes in history up to when it was there: what opened later, and is open in the view when the
// server starts, opened after a copy was made which history was restored from. While history still makes up
// for what it missed before, it is not noted: if this server ends now, the next has to do it.
func (r *Reactor) attend(ctx context.Context) {
	now := r.opts.Now()
	if r.missed != nil || !r.noted.IsZero() && now.Sub(r.noted) < attendEach {
		return
	}
	r.noted = now
	until := now
	if _, since, waits, _ := r.backlog.oldest(); waits {
		until = time.Unix(0, since)
	}
	if err := r.opts.Store.Attend(ctx, until); err != nil && ctx.Err() == nil {
		r.opts.Logger.Debug("it could not be noted that history is there", "err", err)
	}
}

// before says whether a problem opened when history was there: it should know it.
func (r *Reactor) before(opened time.Time) bool { return !opened.After(r.attended.Add(attendSlack)) }
