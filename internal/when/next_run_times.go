// Package when computes the times at which a check is due on a node. Each node has an offset
// of its own within the interval, and server and agent compute the same one. In: interval or
// cron expression, ids, the time. Out: the next time. Pure functions: no goroutines, no locks,
// no clock.
package when

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Phase returns at which offset within its interval a check runs on a node. The ids of node and check determine the
// offset.
func Phase(node uuid.UUID, check model.CheckID, interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	var key [20]byte
	copy(key[:], node[:])
	binary.LittleEndian.PutUint32(key[16:], uint32(check))
	return time.Duration(xxhash.Sum64(key[:]) % uint64(interval))
}

// NextAtPhase returns the next run time of a schedule that repeats at an offset (phase) within each interval. The
// offset (phase) is the time from the start of each interval.
func NextAtPhase(now, interval, phase time.Duration) time.Duration {
	next := now - now%interval + phase
	if next <= now {
		next += interval
	}
	return next
}

// ParseCron checks the syntax of a cron expression, and returns the time zone with the given name. The
// expression has five fields, or is a macro such as @daily. An empty zone is the machine's.
func ParseCron(expr, zone string) (*time.Location, error) {
	if len(strings.Fields(expr)) != 5 && !strings.HasPrefix(expr, "@") || !gronx.IsValid(expr) {
		return nil, fmt.Errorf("cron %q: expected five fields (minute hour day month weekday), such as \"*/5 8-18 * * 1-5\"", expr)
	}
	if zone == "" {
		return time.Local, nil
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", zone, err)
	}
	return location, nil
}

// Next returns the time of an agent's next run of a check, by interval or cron. It returns zero if the check never
// runs. An interval counts from the start of the last run on the boot clock. A cron expression follows the machine's
// wall clock, which is ahead of the caller's clock by skew.
func Next(interval time.Duration, cron, zone string, last, now time.Time, skew time.Duration) time.Time {
	if cron == "" {
		if interval <= 0 || last.IsZero() {
			return time.Time{}
		}
		return last.Add((now.Sub(last)/interval + 1) * interval)
	}
	location, err := ParseCron(cron, zone)
	if err != nil {
		return time.Time{}
	}
	next, err := NextCron(cron, location, now.Add(skew))
	if err != nil {
		return time.Time{}
	}
	return next.Add(-skew)
}

// NextCron returns the first time after now that a cron expression matches. The expression counts on the wall clock of
// a time zone. Ticks in an hour that daylight saving skips do not occur. In an hour that daylight saving repeats,
// ticks occur in the first pass, and in the second one only if the expression does not name the hour (*, */2).
func NextCron(expr string, location *time.Location, now time.Time) (time.Time, error) {
	named := false
	if segments, err := gronx.Segments(expr); err == nil { // second, minute, hour, …
		named = !strings.Contains(segments[2], "*")
	}
	// The cron library ignores daylight saving. So each time span with a constant offset is searched in
	// a fixed zone with that offset.
	from, in := now, now.In(location)
	for {
		_, offset := in.Zone()
		_, end := in.ZoneBounds()
		next, err := gronx.NextTickAfter(expr, from.In(time.FixedZone("", offset)), false)
		if err != nil {
			return next.In(location), err
		}
		if end.IsZero() || next.Before(end) {
			if next = next.In(location); !named || !isRepeatedTime(next) {
				return next, nil
			}
			from = next
			continue
		}
		// Offsets differ by less than a day: spans that end more than 25 hours before next have no tick.
		if in = next.Add(-25 * time.Hour); in.Before(end) {
			in = end
		}
		from, in = in.Add(-time.Second), in.In(location)
	}
}

// LastCron returns the last time before now that a cron expression matches, or zero. The wall clock of the time zone
// counts; after a change of daylight saving the result may be wrong by the hour of the change.
func LastCron(expr string, location *time.Location, now time.Time) time.Time {
	in := now.In(location)
	for range 3 {
		name, offset := in.Zone()
		last, err := gronx.PrevTickBefore(expr, now.In(time.FixedZone(name, offset)), false)
		if err != nil {
			return time.Time{}
		}
		in = last.In(location)
		if _, then := in.Zone(); then == offset {
			break
		}
	}
	return in
}

// isRepeatedTime reports whether a time is in the second pass of an hour repeated by a clock change. Such times
// exist because the clock is set back at the end of summer time.
func isRepeatedTime(t time.Time) bool {
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return false
	}
	_, was := start.Add(-1).Zone()
	_, is := t.Zone()
	return t.Before(start.Add(time.Duration(was-is) * time.Second))
}
