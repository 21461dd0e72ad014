package window

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// maxShift limits the change of a zone's offset.
const maxShift = 3 * time.Hour

// Ticks are times of the wall clock: a skipped one is at the instant of the change, a repeated one at
// its first instant. Hourly expressions tick in both passes of a repeated hour.

func (c cronSpan) containing(t time.Time, zone *time.Location) (from, until time.Time, ok bool) {
	if from, ok = c.last(t, zone); !ok {
		return time.Time{}, time.Time{}, false
	}
	until = from.Add(c.length)
	return from, until, t.Before(until)
}

// last returns the last tick up to t.
func (c cronSpan) last(t time.Time, zone *time.Location) (tick time.Time, ok bool) {
	wall := wallOf(t, zone)
	_, before := t.Add(-maxShift).In(zone).Zone()
	_, now := t.In(zone).Zone()
	wall = wall.Add(time.Duration(max(0, before-now)) * time.Second) // a clock that was set back has shown later times already
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
		if at, err := gronx.PrevTickBefore(c.expr, fixedZone(t, zone), true); err == nil && t.Sub(at) < maxShift && (!ok || at.After(tick)) {
			return at, true
		}
	}
	return tick, ok
}

func (c cronSpan) next(t time.Time, zone *time.Location) (tick time.Time) {
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
		if at, err := gronx.NextTickAfter(c.expr, fixedZone(t, zone), false); err == nil && at.Sub(t) < maxShift && (tick.IsZero() || at.Before(tick)) {
			return at
		}
	}
	return tick
}

// hourly reports whether the expression ticks in every hour.
func (c cronSpan) hourly() bool { return strings.Fields(c.expr)[1] == "*" }

// wallOf returns the wall clock's time as if it were UTC, where no time is skipped or repeated.
func wallOf(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// instantOf returns the first instant at which the wall clock shows wall.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	first, _ := dateOf(wall).instants(wall.Hour()*60+wall.Minute(), zone)
	return first
}

// fixedZone returns t in a fixed zone with the present offset of zone.
func fixedZone(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.In(time.FixedZone("", offset))
}
