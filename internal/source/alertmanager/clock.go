package alertmanager

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// An alert's endsAt is of its sender's clock. Where that is behind ours, an alert that fires looks as if it
// had ended: what tells them apart is that the end of one that fires moves on each time it is said, and the
// end of one that has ended stays.

const (
	// movesOn is how many times in a row an end that is over here must have moved on.
	movesOn = 2
	// sameMoment is within which the same is said twice by chance, as by a sender that tries again.
	sameMoment = 10 * time.Second
	// forgetEnds is when an end is forgotten that nobody says any more: Prometheus says it for 15 minutes.
	forgetEnds = 20 * time.Minute
	// warnAgain is how often the log says that somebody's clock is wrong.
	warnAgain = time.Hour
	// grafanaLasts is how long an alert without an end fires that a contact point of Grafana brings: it says it again only as
	// its notification policies repeat it, by default every four hours, and says when it has ended.
	grafanaLasts = 4*time.Hour + 15*time.Minute
)

// ending is one alert, as one sender says it.
type ending struct {
	sender string
	id     [32]byte
}

// end is an endsAt that was over here when it came.
type end struct {
	ends  time.Time
	at    time.Duration // when it came, of the receiver's clock
	moved int           // so many times in a row it had moved on
}

// date finds out how long each alert of a request fires that nobody says again, and whether its sender's
// clock is wrong.
func (s *Server) date(by intent.Actor, alerts []Alert, of []outcome) {
	s.writing.Lock()
	defer s.writing.Unlock()
	now, wall := s.now(), s.cfg.Now()
	sender := by.User + " (" + by.Whence + ")"
	var behind, ahead time.Duration
	for i := range alerts {
		if of[i] != outcomes {
			continue // it is refused
		}
		a := &alerts[i]
		key := ending{sender, a.identity()}
		ahead = max(ahead, a.StartsAt.Sub(wall))
		if a.left = a.lasts(wall); a.left > 0 {
			delete(s.ends, key)
			continue
		}
		was, known := s.ends[key]
		is := end{ends: a.EndsAt, at: now}
		switch {
		case known && a.EndsAt.Equal(was.ends) && now-was.at < sameMoment:
			is = was
		case known && a.EndsAt.After(was.ends):
			is.moved = was.moved + 1
		}
		if known || len(s.ends) < s.cfg.Limits.Firing {
			s.ends[key] = is
		}
		if is.moved >= movesOn {
			a.left = min(max(resolveAfter, 3*(now-was.at)), longest)
			a.behind = wall.Sub(a.EndsAt)
			behind = max(behind, a.behind)
			s.metrics.behind.Inc()
		}
	}
	switch {
	case behind > 0:
		s.warnOf(sender, now, "the clock of who sends alerts is behind this server's: their ends are over when they come, and they count as ended until two more were sent", "at_least", behind)
	case ahead > time.Minute:
		s.warnOf(sender, now, "the clock of who sends alerts is ahead of this server's: what has ended ends here as much later", "at_least", ahead)
	}
}

// lasts is how long an alert fires that nobody says again, if its sender's clock is right; not positive: it fires no more.
// Nobody says an alert again within moments, so that one which fires lasts until it may be said again.
func (a *Alert) lasts(wall time.Time) time.Duration {
	switch left := a.EndsAt.Sub(wall); {
	case a.EndsAt.IsZero() && a.Labels[grafanaLabel] != "":
		return grafanaLasts
	case a.EndsAt.IsZero():
		return resolveAfter
	case left <= 0:
		return left
	default:
		return min(max(left, soon), longest)
	}
}

// grafanaLabel is on each alert of Grafana's own rules.
const grafanaLabel = "grafana_folder"

// saidAgain is how long senders have to say again what an event says, after a start of this server.
func saidAgain(output string) time.Duration {
	if strings.Contains(output, grafanaLabel+"=") {
		return grafanaLasts
	}
	return resolveAfter
}

// lag is what the event says of its sender's clock.
type lag struct {
	behind time.Duration // at least
	note   string        // empty: nothing
	at     time.Duration // when that was found out last, of the receiver's clock
}

// lagAfter is what it says after an alert: what it said before stays while it is about right, and while another sender,
// whose clock is right, says the same alert.
func (a *Alert) lagAfter(was lag, by intent.Actor, now time.Duration) lag {
	off := a.behind - was.behind
	switch {
	case was.note != "" && a.behind > 0 && off > -time.Minute && off < time.Minute:
		was.at = now
		return was
	case a.behind > 0:
		return lag{a.behind, lagNote(by, a.behind), now}
	case now-was.at < resolveAfter:
		return was
	}
	return lag{}
}

func lagNote(by intent.Actor, behind time.Duration) string {
	return fmt.Sprintf("the clock of %s at %s is behind this server's, by %s at least: its alerts come late here", by.User, by.Whence, model.Duration(max(behind.Truncate(time.Minute), time.Minute)))
}

// warnOf says so in the log, now and then. The caller holds writing.
func (s *Server) warnOf(sender string, now time.Duration, what string, args ...any) {
	if at, ok := s.warned[sender]; ok && now-at < warnAgain {
		return
	}
	s.warned[sender] = now
	s.cfg.Log.Warn(what, append([]any{"sender", sender}, args...)...)
}

// forget forgets ends that nobody says any more, and whom the log may speak of again. The caller holds writing.
func (s *Server) forget(now time.Duration) {
	for key, e := range s.ends {
		if now-e.at >= forgetEnds {
			delete(s.ends, key)
		}
	}
	for sender, at := range s.warned {
		if now-at >= warnAgain {
			delete(s.warned, sender)
		}
	}
}
