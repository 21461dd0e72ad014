package when

import (
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// NextCron returns the first tick after now on the wall clock of location. Ticks in an hour that
// daylight saving skips are left out. Of an hour that it repeats, the first counts; the second
// counts too if the expression does not name the hour (*, */2).
func NextCron(expr string, location *time.Location, now time.Time) (time.Time, error) {
	named := false
	if segments, err := gronx.Segments(expr); err == nil { // second, minute, hour, …
		named = !strings.Contains(segments[2], "*")
	}
	// The library does not know daylight saving: each span with one offset is searched in a fixed
	// zone with that offset.
	from, in := now, now.In(location)
	for {
		_, offset := in.Zone()
		_, end := in.ZoneBounds()
		next, err := gronx.NextTickAfter(expr, from.In(time.FixedZone("", offset)), false)
		if err != nil {
			return next.In(location), err
		}
		if end.IsZero() || next.Before(end) {
			if next = next.In(location); !named || !repeated(next) {
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

// repeated reports whether the wall clock shows t for the second time, after it was set back.
func repeated(t time.Time) bool {
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return false
	}
	_, was := start.Add(-1).Zone()
	_, is := t.Zone()
	return t.Before(start.Add(time.Duration(was-is) * time.Second))
}
