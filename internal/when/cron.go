package when

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// NextCron is the first tick after now on the wall clock. A time that daylight saving
// skips is passed over; of those that it repeats the first counts, and the second too where the
// expression does not name the hour (*, */2), as the wall clock has it.
func NextCron(expr string, location *time.Location, now time.Time) (time.Time, error) {
	named := false
	if segments, err := gronx.Segments(expr); err == nil { // second, minute, hour, …
		named = !strings.Contains(segments[2], "*")
	}
	// The library knows nothing of clocks that are changed: it is asked for each stretch of time
	// that has one offset, as if that went on for ever.
	from, in := now, now.In(location)
	for {
		_, offset := in.Zone()
		_, end := in.ZoneBounds()
		next, err := gronx.NextTickAfter(expr, from.In(time.FixedZone("", offset)), false)
		if err != nil {
			return next.In(location), err
		}
		if end.IsZero() || next.Before(end) {
			if next = next.In(location); !named || !again(next) {
				return next, nil
			}
			from = next
			continue
		}
		// Whatever the offset, there is none a day before: stretches between are left out.
		if in = next.Add(-25 * time.Hour); in.Before(end) {
			in = end
		}
		from, in = in.Add(-time.Second), in.In(location)
	}
}

// again says whether the wall clock had been at a time before, until it was set back.
func again(t time.Time) bool {
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return false
	}
	_, was := start.Add(-1).Zone()
	_, is := t.Zone()
	return t.Before(start.Add(time.Duration(was-is) * time.Second))
}
