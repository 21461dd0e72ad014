package window

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// maxShift is how far clocks are set at most, where a zone changes.
const maxShift = 3 * time.Hour

// Ticks are times of the wall clock: one that the clocks skip is at the instant of the change, one
// that comes twice at the first. Where every hour has them, they go on through an hour that comes
// twice.

func (c ticked) around(t time.Time, zone *time.Location) (from, until time.Time, ok bool) {
	if from, ok = c.last(t, zone); !ok {
		return time.Time{}, time.Time{}, false
	}
	until = from.Add(c.length)
	return from, until, t.Before(until)
}

// last is the last tick up to t.
func (c ticked) last(t time.Time, zone *time.Location) (tick time.Time, ok bool) {
	wall := wallOf(t, zone)
	_, before := t.Add(-maxShift).In(zone).Zone()
	_, now := t.In(zone).Zone()
	wall = wall.Add(time.Duration(max(0, before-now)) * time.Second) // clocks that went back have shown later times already
	for {
		at, err := gronx.PrevTickBefore(c.expr, wall, true)
		if err != nil {
			break
		}
		if tick = instantOf(at, zone); !tick.After(t) {
			ok = true
			break
		}
		wall = at.Add(-time.Minute)
	}
	if c.hourly() {
		if at, err := gronx.PrevTickBefore(c.expr, steady(t, zone), true); err == nil && t.Sub(at) < maxShift && (!ok || at.After(tick)) {
			return at, true
		}
	}
	return tick, ok
}

func (c ticked) after(t time.Time, zone *time.Location) (tick time.Time) {
	for wall := wallOf(t, zone); ; {
		at, err := gronx.NextTickAfter(c.expr, wall, false)
		if err != nil {
			break
		}
		if tick = instantOf(at, zone); tick.After(t) {
			break
		}
		wall = at
	}
	if c.hourly() {
		if at, err := gronx.NextTickAfter(c.expr, steady(t, zone), false); err == nil && at.Sub(t) < maxShift && (tick.IsZero() || at.Before(tick)) {
			return at
		}
	}
	return tick
}

// hourly says whether every hour has its ticks.
func (c ticked) hourly() bool { return strings.Fields(c.expr)[1] == "*" }

// wallOf is what the wall clock shows, as if it were UTC: no time comes twice there, and none is
// skipped.
func wallOf(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// instantOf is when the wall clock shows that first.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	first, _ := dateOf(wall).instants(wall.Hour()*60+wall.Minute(), zone)
	return first
}

// steady is t in a zone whose clock is that of now and never changes.
func steady(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.In(time.FixedZone("", offset))
}
