package link

import "time"

const (
	aboutFirst = 4 * time.Second // at most, after the session opened; at least a second
	aboutEvery = time.Minute     // on average
)

// about says when the agent tells about itself: soon after a session opened, and then about
// once a minute, together with something else that leaves: no radio wakes up for it.
type about struct {
	*runner
	at    time.Time
	first bool // the connection is fresh: nothing has to wake up
}

func (r *runner) aboutItself(now time.Time) *about {
	return &about{r, now.Add(time.Second + time.Duration(r.random()*float64(aboutFirst-time.Second))), true}
}

// due says whether to tell now; leaving: a batch leaves at this moment.
func (a *about) due(now time.Time, leaving bool) bool {
	return a.cfg.Stats != nil && (leaving || a.first) && !now.Before(a.at)
}

func (a *about) tell(s *Session, now time.Time) error {
	a.at, a.first = now.Add(time.Duration((0.75+a.random()/2)*float64(aboutEvery))), false
	x := a.cfg.Stats()
	x.BytesSent = a.sent + s.Sent()
	return s.Stats(&x)
}

// wait is how long nothing is to be done by itself, where everything else waits so long.
func (a *about) wait(now time.Time, others time.Duration) time.Duration {
	if a.cfg.Stats == nil || !a.first {
		return others
	}
	return max(min(others, a.at.Sub(now)), time.Millisecond)
}
