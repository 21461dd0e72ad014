package alertmanager

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// The endsAt of an alert is a time of its sender's clock. If that is behind this server's, a firing alert looks ended. The
// difference: the end of a firing alert advances with each repetition, the end of an ended one stays.

const (
	// minAdvances is the number of successive repetitions in which a past end must have advanced.
	minAdvances = 2
	// retryWindow is the time within which a sender that retries sends the same again.
	retryWindow = 10 * time.Second
	// pastEndLifetime is the time after which a past end that is not repeated is forgotten; Prometheus repeats it for 15 minutes.
	pastEndLifetime = 20 * time.Minute
	// warnInterval is the time between two log lines on the clock of one sender.
	warnInterval = time.Hour
	// grafanaLifetime is the lifetime of an alert without an end of a Grafana contact point: its notification policies repeat
	// it every four hours by default, and Grafana sends its end.
	grafanaLifetime = 4*time.Hour + 15*time.Minute
)

// senderAlert identifies an alert as sent by one particular sender.
type senderAlert struct {
	sender string
	id     [32]byte
}

// expiredAlert records an alert whose end time had already passed on arrival, a sign of a slow clock. It is a sign of
// a sender's slow clock.
type expiredAlert struct {
	endsAt    time.Time
	arrivedAt time.Duration // time of arrival, by Server.clock
	advances  int           // successive repetitions in which the endsAt advanced
}

// setLifetimes decides how long each alert of a request fires without a repetition by its sender. It also
// detects a slow clock of the sender.
func (s *Server) setLifetimes(by intent.Actor, alerts []Alert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, wall := s.readClockLocked(), s.cfg.Now()
	sender := by.User + " (" + by.Address + ")"
	var behind, ahead time.Duration
	for i := range alerts {
		a := &alerts[i]
		if !a.isUnhandled() {
			continue // refused
		}
		key := senderAlert{sender, a.labelsHash()}
		ahead = max(ahead, a.StartsAt.Sub(wall))
		if a.lifetime = a.usualLifetime(wall); a.lifetime > 0 {
			delete(s.pastEnds, key)
			continue
		}
		before, known := s.pastEnds[key]
		e := expiredAlert{endsAt: a.EndsAt, arrivedAt: now}
		switch {
		case known && a.EndsAt.Equal(before.endsAt) && now-before.arrivedAt < retryWindow:
			e = before
		case known && a.EndsAt.After(before.endsAt):
			e.advances = before.advances + 1
		}
		if known || len(s.pastEnds) < s.cfg.Limits.Firing {
			s.pastEnds[key] = e
		}
		if e.advances >= minAdvances {
			a.lifetime = min(max(resolveAfter, 3*(now-before.arrivedAt)), maxLifetime)
			a.senderDelay = wall.Sub(a.EndsAt)
			behind = max(behind, a.senderDelay)
			s.metrics.clockDelays.Inc()
		}
	}
	switch {
	case behind > 0:
		s.warnClockLocked(sender, now, "the clock of a sender of alerts is behind the server's clock: its alerts count as ended until the sender repeats them twice", "at_least", behind)
	case ahead > time.Minute:
		s.warnClockLocked(sender, now, "the clock of a sender of alerts is ahead of the server's clock: its alerts end later by the difference", "at_least", ahead)
	}
}

// usualLifetime returns how long an alert normally fires without a repetition by its sender. It is zero or less
// if the alert has ended. No sender repeats an alert within repeatWindow, so a firing one lasts at least so
// long.
func (a *Alert) usualLifetime(wall time.Time) time.Duration {
	switch left := a.EndsAt.Sub(wall); {
	case a.EndsAt.IsZero() && a.Labels[grafanaLabel] != "":
		return grafanaLifetime
	case a.EndsAt.IsZero():
		return resolveAfter
	case left <= 0:
		return left
	default:
		return min(max(left, repeatWindow), maxLifetime)
	}
}

// grafanaLabel is a label of every alert of Grafana's own rules.
const grafanaLabel = "grafana_folder"

// repeatDeadline returns how long after a server's start an alert may stay open without a repetition. Then the
// alert ends.
func repeatDeadline(output string) time.Duration {
	if strings.Contains(output, grafanaLabel+"=") {
		return grafanaLifetime
	}
	return resolveAfter
}

// clockDelay is how far a sender's clock is behind, with a note for the event's output.
type clockDelay struct {
	delay  time.Duration // least time by which the clock is behind
	note   string        // empty: none
	seenAt time.Duration // time at which the delay was seen last, by Server.clock
}

// clockDelay returns how far the sender's clock is behind, with a note about the delay. The note before stays while it
// is about right, and while another sender with a right clock sends the same alert.
func (a *Alert) clockDelay(before clockDelay, by intent.Actor, now time.Duration) clockDelay {
	change := a.senderDelay - before.delay
	switch {
	case before.note != "" && a.senderDelay > 0 && change > -time.Minute && change < time.Minute:
		before.seenAt = now
		return before
	case a.senderDelay > 0:
		return clockDelay{a.senderDelay, clockNote(by, a.senderDelay), now}
	case now-before.seenAt < resolveAfter:
		return before
	}
	return clockDelay{}
}

// clockNote returns a note about a sender's slow clock, for the output of an event.
func clockNote(by intent.Actor, behind time.Duration) string {
	return fmt.Sprintf("the clock of %s at %s is at least %[3]s behind this server's: its alerts arrive late", by.User, by.Address, model.Duration(max(behind.Truncate(time.Minute), time.Minute)))
}

// warnClockLocked logs a warning about a sender's slow clock, at most once per warnInterval.
func (s *Server) warnClockLocked(sender string, now time.Duration, what string, args ...any) {
	if at, ok := s.warned[sender]; ok && now-at < warnInterval {
		return
	}
	s.warned[sender] = now
	s.cfg.Log.Warn(what, append([]any{"sender", sender}, args...)...)
}

// pruneSendersLocked drops records about senders that are too old to matter. They are past ends of alerts and logged
// warnings.
func (s *Server) pruneSendersLocked(now time.Duration) {
	for key, e := range s.pastEnds {
		if now-e.arrivedAt >= pastEndLifetime {
			delete(s.pastEnds, key)
		}
	}
	for sender, at := range s.warned {
		if now-at >= warnInterval {
			delete(s.warned, sender)
		}
	}
}
