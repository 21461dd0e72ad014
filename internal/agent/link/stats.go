package link

import "time"

const (
	statsDelay = 4 * time.Second // longest delay of the first Stats of a session; the shortest is 1 s
	statsEvery = time.Minute     // mean period
)

// statsTimer schedules the Stats of a session: the first soon after it opened, the others about once
// a minute together with a batch, so that they wake no radio.
type statsTimer struct {
	*runner
	at    time.Time
	first bool
}

func (r *runner) newStatsTimer(now time.Time) *statsTimer {
	return &statsTimer{r, now.Add(time.Second + time.Duration(r.random()*float64(statsDelay-time.Second))), true}
}

// due returns whether to send Stats now. batchSent: a batch has just left.
func (a *statsTimer) due(now time.Time, batchSent bool) bool {
	return a.cfg.Stats != nil && (batchSent || a.first) && !now.Before(a.at)
}

func (a *statsTimer) send(s *Session, now time.Time) error {
	a.at, a.first = now.Add(time.Duration((0.75+a.random()/2)*float64(statsEvery))), false
	x := a.cfg.Stats()
	x.BytesSent = a.sent + s.Sent()
	return s.Stats(&x)
}

// wait returns the time until the first Stats, at most other.
func (a *statsTimer) wait(now time.Time, other time.Duration) time.Duration {
	if a.cfg.Stats == nil || !a.first {
		return other
	}
	return max(min(other, a.at.Sub(now)), time.Millisecond)
}
