package window

import (
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/muster-fleet/muster/internal/model"
)

// maxFor limits the length of a span that begins with a cron tick.
const maxFor = 31 * 24 * time.Hour

// parseSpan parses a time span of a Window resource. The span is weekly, by cron expression, or from one date to
// another.
func parseSpan(s model.WindowSpan, zone *time.Location) (span, error) {
	forms := 0
	for _, text := range []string{s.During, s.Cron, s.From + s.To} {
		if text != "" {
			forms++
		}
	}
	if forms != 1 || s.For != 0 && s.Cron == "" {
		return nil, model.Errorf(model.Invalid, "a time span needs exactly one of the fields during, cron (with for) and from (with to)")
	}
	switch {
	case s.During != "":
		return parseWeekly(s.During)
	case s.Cron != "":
		return parseCron(s)
	}
	return parseFixed(s, zone)
}

// cronSpan is a repeated time span of fixed length, which starts whenever a cron expression matches. It has a fixed
// length.
type cronSpan struct {
	expr   string
	length time.Duration
}

// parseCron parses a time span with a cron expression and a length.
func parseCron(s model.WindowSpan) (span, error) {
	if len(strings.Fields(s.Cron)) != 5 || !gronx.IsValid(s.Cron) {
		return nil, model.Errorf(model.Invalid, "cron %q: expected five fields (minute hour day month weekday)", s.Cron).WithHint(`"0 2 * * sun"`)
	}
	if d := time.Duration(s.For); d < time.Minute || d > maxFor {
		return nil, model.Errorf(model.Invalid, "cron %q: the field for (the duration) must be 1m to 31d", s.Cron)
	}
	return cronSpan{s.Cron, time.Duration(s.For)}, nil
}

// fixedSpan is a single time span between two instants.
type fixedSpan struct{ from, to time.Time }

const dateForm = "2006-01-02 15:04"

// parseFixed parses a single time span, given by its first and last date and time.
func parseFixed(s model.WindowSpan, zone *time.Location) (span, error) {
	var o fixedSpan
	for _, end := range []struct {
		text string
		last bool
		into *time.Time
	}{{s.From, false, &o.from}, {s.To, true, &o.to}} {
		if at, err := time.Parse(time.RFC3339, end.text); err == nil {
			*end.into = at
			continue
		}
		wall, err := time.Parse(dateForm, strings.Replace(end.text, "T", " ", 1))
		if err != nil {
			return nil, model.Errorf(model.Invalid, "%q is not a date with a time", end.text).WithHint("2026-12-24 18:00")
		}
		first, last := dateOf(wall).spanInstants(wall.Hour()*60+wall.Minute(), zone)
		if *end.into = first; end.last {
			*end.into = last
		}
	}
	if !o.from.Before(o.to) {
		return nil, model.Errorf(model.Invalid, "from %s to %s is empty: the end must be after the start", s.From, s.To)
	}
	return o, nil
}

// containing returns the start and end of the span, and whether the span contains t. The result ok is false if the
// span does not contain t.
func (o fixedSpan) containing(t time.Time, _ *time.Location) (from, until time.Time, ok bool) {
	return o.from, o.to, !t.Before(o.from) && t.Before(o.to)
}

// next returns the span's start if the start is after t, otherwise zero.
func (o fixedSpan) next(t time.Time, _ *time.Location) time.Time {
	if o.from.After(t) {
		return o.from
	}
	return time.Time{}
}

// weeklySpan is a time span that recurs on some days of the week. begin and end are minutes after midnight of the day
// on which the occurrence begins; an end on the next day is more than 24 hours.
type weeklySpan struct {
	days       [7]bool // from Sunday
	start, end int
}

const minutesOfDay = 24 * 60

// containing returns start and end of the span's weekly occurrence that contains t. The result ok is false if
// no span contains t.
func (w weeklySpan) containing(t time.Time, zone *time.Location) (from, until time.Time, ok bool) {
	today := dateOf(t.In(zone))
	for _, d := range []calendarDate{today.plusDays(-1), today} {
		if from, until = w.occurrence(d, zone); w.days[d.weekday()] && !t.Before(from) && t.Before(until) {
			return from, until, true
		}
	}
	return time.Time{}, time.Time{}, false
}

// next returns the first start of the span after t.
func (w weeklySpan) next(t time.Time, zone *time.Location) time.Time {
	today := dateOf(t.In(zone))
	for i := range 15 { // a time zone may skip a whole day of one week
		d := today.plusDays(i)
		if from, until := w.occurrence(d, zone); w.days[d.weekday()] && from.After(t) && until.After(from) {
			return from
		}
	}
	return time.Time{}
}

// occurrence returns the start and end of the weekly time span that starts on a date.
func (w weeklySpan) occurrence(d calendarDate, zone *time.Location) (from, until time.Time) {
	from, _ = d.spanInstants(w.start, zone)
	_, until = d.plusDays(w.end/minutesOfDay).spanInstants(w.end%minutesOfDay, zone)
	return from, until
}

var dayNames = map[string]time.Weekday{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

const duringHint = `days, times, or both: "22:00-07:00", "sat,sun", "mon-fri 12:00-13:00"`

// parseWeekly parses a weekly time span, given as days, times of the day, or both.
func parseWeekly(text string) (w weeklySpan, err error) {
	w.end = minutesOfDay
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || len(words) > 2 {
		return w, duringError(text, "%d words, expected one or two", len(words))
	}
	times := words[len(words)-1]
	hasTimes := strings.Contains(times, ":")
	if len(words) == 2 && !hasTimes {
		return w, duringError(text, "%q is not a time", times)
	}
	if hasTimes {
		if w.start, w.end, err = parseTimes(times); err != nil {
			return w, duringError(text, "%v", err)
		}
	}
	if len(words) == 2 || !hasTimes {
		if w.days, err = parseDays(words[0]); err != nil {
			return w, duringError(text, "%v", err)
		}
	} else {
		w.days = [7]bool{true, true, true, true, true, true, true}
	}
	return w, nil
}

// duringError returns an error about a malformed weekly time span, with the expected format.
func duringError(text, format string, args ...any) error {
	return model.Errorf(model.Invalid, "invalid time span %q: %s", text, fmt.Sprintf(format, args...)).WithHint("%s", duringHint)
}

// parseTimes parses two times of the day, such as 22:00-07:00, as minutes after midnight.
func parseTimes(text string) (begin, end int, err error) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, fmt.Errorf("%q has no end time: expected two times such as 22:00-07:00", text)
	}
	if begin, err = parseTime(a); err != nil {
		return 0, 0, err
	}
	if end, err = parseTime(b); err != nil {
		return 0, 0, err
	}
	switch {
	case begin == end || begin == minutesOfDay:
		return 0, 0, fmt.Errorf("%s to %s has no length: for a whole day write 00:00-24:00", a, b)
	case end < begin:
		end += minutesOfDay
	}
	return begin, end, nil
}

// parseTime parses a time of the day such as 7:30, 07:30 or 24:00 as minutes after midnight.
func parseTime(text string) (minute int, err error) {
	var h, m int
	if n, err := fmt.Sscanf(text, "%d:%d", &h, &m); err != nil || n != 2 || h < 0 || m < 0 || m > 59 || h*60+m > minutesOfDay ||
		text != fmt.Sprintf("%d:%02d", h, m) && text != fmt.Sprintf("%02d:%02d", h, m) {
		return 0, fmt.Errorf("%q is not a time of day: expected a time such as 07:30", text)
	}
	return h*60 + m, nil
}

// parseDays parses days of the week, such as mon-fri or sat,sun.
func parseDays(text string) (days [7]bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		a, b, isRange := strings.Cut(part, "-")
		if !isRange {
			b = a
		}
		first, ok1 := dayNames[a]
		last, ok2 := dayNames[b]
		if !ok1 || !ok2 {
			return days, fmt.Errorf("%q is not a day: expected \"mon\", \"tue\", \"wed\", \"thu\", \"fri\", \"sat\" or \"sun\"", part)
		}
		for d := first; ; d = (d + 1) % 7 {
			if days[d] = true; d == last {
				break
			}
		}
	}
	return days, nil
}

// maxShift bounds the size of one change of a time zone's offset.
const maxShift = 3 * time.Hour

// Ticks of a cron expression are times of the wall clock. If the clock skips a tick, the tick is at the instant of the
// change; if the clock repeats a tick, only the first one counts. Hourly expressions tick in both passes of a repeated
// hour.

// containing returns start and end of the occurrence that contains t, in the schedule of the cron expression.
// The result ok is false if no span contains t.
func (c cronSpan) containing(t time.Time, zone *time.Location) (from, until time.Time, ok bool) {
	if from, ok = c.lastTick(t, zone); !ok {
		return time.Time{}, time.Time{}, false
	}
	until = from.Add(c.length)
	return from, until, t.Before(until)
}

// lastTick returns the last time at or before t in the schedule of the cron expression.
func (c cronSpan) lastTick(t time.Time, zone *time.Location) (tick time.Time, ok bool) {
	wall := wallClockTime(t, zone)
	_, before := t.Add(-maxShift).In(zone).Zone()
	_, now := t.In(zone).Zone()
	wall = wall.Add(time.Duration(max(0, before-now)) * time.Second) // a clock that was set back has already shown later times
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

// next returns the first start of the span after t, by its cron expression.
func (c cronSpan) next(t time.Time, zone *time.Location) (tick time.Time) {
	for wall := wallClockTime(t, zone); ; {
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

// hourly reports whether the cron expression matches in each hour of the day. Its hour field is * then.
func (c cronSpan) hourly() bool { return strings.Fields(c.expr)[1] == "*" }

// wallClockTime returns the time on a zone's wall clock at t, in the form of a UTC time. UTC skips and repeats
// no hour.
func wallClockTime(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// instantOf returns when a zone's wall clock first shows the given date and time.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	first, _ := dateOf(wall).spanInstants(wall.Hour()*60+wall.Minute(), zone)
	return first
}

// fixedZone returns t in a zone that always has the UTC offset valid at t. The offset is the one of the given
// zone at t.
func fixedZone(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.In(time.FixedZone("", offset))
}

// calendarDate is a day in a calendar, without a time zone.
type calendarDate struct {
	year  int
	month time.Month
	day   int
}

// dateOf returns the calendar date of a time, in the time's own zone.
func dateOf(t time.Time) calendarDate {
	y, m, d := t.Date()
	return calendarDate{y, m, d}
}

// plusDays returns the date a number of days later.
func (d calendarDate) plusDays(days int) calendarDate {
	return dateOf(time.Date(d.year, d.month, d.day+days, 0, 0, 0, 0, time.UTC))
}

// weekday returns the day of the week.
func (d calendarDate) weekday() time.Weekday {
	return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Weekday()
}

// spanInstants returns the instant of a minute of the date, once as a span's start, once as end. One is for a
// span that begins at the minute, one for a span that ends there. They differ in a repeated hour: a span begins
// in the first pass and ends in the second, unless clocks are set back to exactly that minute, because then no
// earlier minute repeats. In a skipped hour both are the instant of the change.
func (d calendarDate) spanInstants(minute int, zone *time.Location) (begin, end time.Time) {
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
