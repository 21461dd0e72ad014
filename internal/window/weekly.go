package window

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// weekly occurs on some days of each week. begin and end are minutes after midnight of the day of its
// beginning; an end past midnight exceeds 24 hours.
type weekly struct {
	days       [7]bool // from Sunday
	begin, end int
}

const minutesOfDay = 24 * 60

func (w weekly) containing(t time.Time, zone *time.Location) (from, until time.Time, ok bool) {
	today := dateOf(t.In(zone))
	for _, d := range []date{today.plus(-1), today} {
		if from, until = w.occurrence(d, zone); w.days[d.weekday()] && !t.Before(from) && t.Before(until) {
			return from, until, true
		}
	}
	return time.Time{}, time.Time{}, false
}

func (w weekly) next(t time.Time, zone *time.Location) time.Time {
	today := dateOf(t.In(zone))
	for i := range 15 { // clocks may skip a whole day of one week
		d := today.plus(i)
		if from, until := w.occurrence(d, zone); w.days[d.weekday()] && from.After(t) && until.After(from) {
			return from
		}
	}
	return time.Time{}
}

// occurrence returns the bounds of the occurrence that begins on day d.
func (w weekly) occurrence(d date, zone *time.Location) (from, until time.Time) {
	from, _ = d.instants(w.begin, zone)
	_, until = d.plus(w.end/minutesOfDay).instants(w.end%minutesOfDay, zone)
	return from, until
}

var dayNames = map[string]time.Weekday{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

const duringHint = `days, times, or both: "22:00-07:00", "sat,sun", "mon-fri 12:00-13:00"`

func parseWeekly(text string) (w weekly, err error) {
	w.end = minutesOfDay
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || len(words) > 2 {
		return w, wrongDuring(text, "it has %d words", len(words))
	}
	times := words[len(words)-1]
	hasTimes := strings.Contains(times, ":")
	if len(words) == 2 && !hasTimes {
		return w, wrongDuring(text, "%q is no time", times)
	}
	if hasTimes {
		if w.begin, w.end, err = parseTimes(times); err != nil {
			return w, wrongDuring(text, "%v", err)
		}
	}
	if len(words) == 2 || !hasTimes {
		if w.days, err = parseDays(words[0]); err != nil {
			return w, wrongDuring(text, "%v", err)
		}
	} else {
		w.days = [7]bool{true, true, true, true, true, true, true}
	}
	return w, nil
}

func wrongDuring(text, format string, args ...any) error {
	return model.Errorf(model.Invalid, "%q is no time span: %s", text, fmt.Sprintf(format, args...)).WithHint("%s", duringHint)
}

func parseTimes(text string) (begin, end int, err error) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, fmt.Errorf("%q has no end", text)
	}
	if begin, err = parseTime(a); err != nil {
		return 0, 0, err
	}
	if end, err = parseTime(b); err != nil {
		return 0, 0, err
	}
	switch {
	case begin == end || begin == minutesOfDay:
		return 0, 0, fmt.Errorf("%s to %s is no time; a whole day is 00:00-24:00", a, b)
	case end < begin:
		end += minutesOfDay
	}
	return begin, end, nil
}

// parseTime parses 7:30, 07:30 and 24:00.
func parseTime(text string) (minute int, err error) {
	var h, m int
	if n, err := fmt.Sscanf(text, "%d:%d", &h, &m); err != nil || n != 2 || h < 0 || m < 0 || m > 59 || h*60+m > minutesOfDay ||
		text != fmt.Sprintf("%d:%02d", h, m) && text != fmt.Sprintf("%02d:%02d", h, m) {
		return 0, fmt.Errorf("%q is no time of day", text)
	}
	return h*60 + m, nil
}

func parseDays(text string) (days [7]bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		a, b, isRange := strings.Cut(part, "-")
		if !isRange {
			b = a
		}
		first, ok1 := dayNames[a]
		last, ok2 := dayNames[b]
		if !ok1 || !ok2 {
			return days, fmt.Errorf("%q is none of mon, tue, wed, thu, fri, sat, sun", part)
		}
		for d := first; ; d = (d + 1) % 7 {
			if days[d] = true; d == last {
				break
			}
		}
	}
	return days, nil
}
