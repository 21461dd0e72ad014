package window

import "time"

// date is a day of the calendar.
type date struct {
	year  int
	month time.Month
	day   int
}

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return date{y, m, d}
}

func (d date) plus(days int) date {
	return dateOf(time.Date(d.year, d.month, d.day+days, 0, 0, 0, 0, time.UTC))
}

func (d date) weekday() time.Weekday {
	return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Weekday()
}

// instants returns the instants at which a span begins, and at which one ends, at a minute of the
// day on the wall clock of the zone. They differ in a repeated hour: a span begins in the first pass
// and ends in the second, unless clocks are set back to exactly that minute, because then no
// earlier minute repeats. In a skipped hour both are the instant of the change.
func (d date) instants(minute int, zone *time.Location) (begin, end time.Time) {
	wall := time.Date(d.year, d.month, d.day, 0, minute, 0, 0, time.UTC)
	at := func(day time.Time) time.Time {
		_, offset := day.In(zone).Zone()
		return wall.Add(-time.Duration(offset) * time.Second).In(zone)
	}
	before, after := at(wall.Add(-24*time.Hour)), at(wall.Add(24*time.Hour))
	shows := func(t time.Time) bool {
		return dateOf(t) == dateOf(wall) && t.Hour() == wall.Hour() && t.Minute() == wall.Minute()
	}
	switch {
	case shows(before) && shows(after):
		if before.After(after) {
			before, after = after, before
		}
		if setBack, _ := after.ZoneBounds(); setBack.Equal(after) {
			return before, before
		}
		return before, after
	case shows(before):
		return before, before
	case shows(after):
		return after, after
	}
	change, _ := before.ZoneBounds() // with the offset before the change, the instant lies after the change
	return change, change
}
