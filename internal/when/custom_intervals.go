package when

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Schedule says when an item is collected, as a text of Zabbix does. In 1m;10s/1-5,09:00-18:00;wd1-5h8m30 the parts are the
// interval, intervals in some hours of the week, and times of the clock. It is immutable.
type Schedule struct {
	Interval time.Duration // zero: only in the hours and at the times of the other parts
	flexible []flexibleInterval
	clock    []clockTimes
}

// flexibleInterval is an interval that counts at some hours of some days of the week.
type flexibleInterval struct {
	interval   time.Duration // zero: not collected in these hours
	days       uint8         // bit 0 is Monday
	start, end int           // minutes after midnight; the end does not belong to the hours
}

// clockTimes has times of the wall clock. Each field has a bit per value.
type clockTimes struct {
	days, weekdays, hours, minutes, seconds uint64 // bit 1 of days is the first of the month, bit 1 of weekdays is Monday
	namesHour                               bool   // an hour that the clock repeats counts once
}

// ScheduleOf returns the schedule of an item with the given values of macros.
func ScheduleOf(i model.Interval, values *model.MacroValues) (*Schedule, error) {
	expanded, err := values.ExpandInterval(i)
	if err != nil {
		return nil, err
	}
	if d, ok := expanded.Fixed(); ok {
		return &Schedule{Interval: time.Duration(d)}, nil
	}
	s, err := parseSchedule(string(expanded))
	if err != nil && i.HasMacros() {
		err = fmt.Errorf("the interval %s is %q here: %w", i, model.Truncate(string(expanded), 100), err)
	}
	return s, err
}

// FixedInterval returns the interval of an item that the server computes. It is fixed: custom intervals are an error.
func FixedInterval(i model.Interval, values *model.MacroValues) (time.Duration, error) {
	s, err := ScheduleOf(i, values)
	if err == nil && s.IsCustom() {
		err = fmt.Errorf("the interval %s has custom intervals: only agents follow them", i)
	}
	if err != nil {
		return 0, err
	}
	return s.Interval, nil
}

// maxCustom bounds the custom intervals of a schedule.
const maxCustom = 32

// parseSchedule parses the text of a schedule.
func parseSchedule(text string) (*Schedule, error) {
	parts := strings.Split(text, ";")
	interval, ok := model.ParseZabbixTime(parts[0])
	switch {
	case !ok || interval > 24*time.Hour:
		return nil, fmt.Errorf("%q is no interval: expected a time of at most 1d, such as 30s or 5m", parts[0])
	case len(parts)-1 > maxCustom:
		return nil, fmt.Errorf("%d custom intervals: at most %d", len(parts)-1, maxCustom)
	}
	s := &Schedule{Interval: interval}
	for _, part := range parts[1:] {
		if part == "" || part[0] < '0' || part[0] > '9' {
			c, ok := parseClockTimes(part)
			if !ok {
				return nil, fmt.Errorf("%q is no custom interval: expected hours with an interval such as 10s/1-5,09:00-18:00, or times such as wd1-5h8m30", part)
			}
			s.clock = append(s.clock, c)
			continue
		}
		f, ok := parseFlexible(part)
		if !ok {
			return nil, fmt.Errorf("%q is no flexible interval: expected an interval, days from Monday 1 to Sunday 7, and hours, such as 10s/1-5,09:00-18:00", part)
		}
		s.flexible = append(s.flexible, f)
	}
	if interval == 0 && s.shortest() == 0 && len(s.clock) == 0 {
		return nil, fmt.Errorf("%q collects never: expected an interval such as 1m", text)
	}
	return s, nil
}

// parseFlexible parses an interval with days and hours, such as 10s/1-5,09:00-18:00.
func parseFlexible(text string) (f flexibleInterval, ok bool) {
	interval, hours, _ := strings.Cut(text, "/")
	if f.interval, ok = model.ParseZabbixTime(interval); !ok {
		return f, false
	}
	days, hours, _ := strings.Cut(hours, ",")
	set, ok := parseValues(days, 1, 7)
	start, end, isRange := strings.Cut(hours, "-")
	startMinute, okStart := minuteOfDay(start)
	endMinute, okEnd := minuteOfDay(end)
	f.days, f.start, f.end = uint8(set>>1), startMinute, endMinute
	return f, ok && isRange && okStart && okEnd && f.start < f.end && !strings.ContainsAny(days, ",/")
}

// minuteOfDay parses a time of the day such as 9:00 or 24:00 as minutes after midnight.
func minuteOfDay(text string) (int, bool) {
	hour, minute, ok := strings.Cut(text, ":")
	h, errHour := strconv.ParseUint(hour, 10, 8)
	m, errMinute := strconv.ParseUint(minute, 10, 8)
	n := int(h*60 + m)
	return n, ok && errHour == nil && errMinute == nil && len(hour) <= 2 && len(minute) == 2 && m < 60 && n <= 24*60
}

// parseClockTimes parses times of the wall clock, such as md1-7wd1h9m/15. A smaller unit that is left out is zero, a larger
// one is any.
func parseClockTimes(text string) (c clockTimes, ok bool) {
	units := []struct {
		name        string
		first, last int
		set         *uint64
	}{{"md", 1, 31, &c.days}, {"wd", 1, 7, &c.weekdays}, {"h", 0, 23, &c.hours}, {"m", 0, 59, &c.minutes}, {"s", 0, 59, &c.seconds}}
	named := -1 // the smallest unit in the text
	for k, unit := range units {
		rest, found := strings.CutPrefix(text, unit.name)
		if !found {
			continue
		}
		end := strings.IndexAny(rest, "mwhs")
		if end < 0 {
			end = len(rest)
		}
		if *unit.set, ok = parseValues(rest[:end], unit.first, unit.last); !ok {
			return c, false
		}
		text, named = rest[end:], k
	}
	for k, unit := range units {
		switch {
		case *unit.set != 0:
		case k < named || k < 2:
			*unit.set = math.MaxUint64
		default:
			*unit.set = 1
		}
	}
	c.namesHour = c.hours != math.MaxUint64
	return c, text == "" && named >= 0
}

// parseValues parses a list of values and ranges with steps as a set of bits. Examples are 1-5,7 and 0-30/10.
func parseValues(text string, first, last int) (set uint64, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		from, to := first, last
		if span != "" {
			a, b, isRange := strings.Cut(span, "-")
			if !isRange {
				b = a
			}
			x, errX := strconv.ParseUint(a, 10, 8)
			y, errY := strconv.ParseUint(b, 10, 8)
			if from, to = int(x), int(y); errX != nil || errY != nil || from < first || to > last || from > to || stepped && !isRange {
				return 0, false
			}
		}
		step := 1
		if stepped {
			n, err := strconv.ParseUint(stepText, 10, 8)
			if step = int(n); err != nil || step < 1 || step > to-from {
				return 0, false
			}
		} else if span == "" {
			return 0, false
		}
		for v := from; v <= to; v += step {
			set |= 1 << v
		}
	}
	return set, true
}

// IsCustom reports whether the wall clock decides when the item is collected.
func (s *Schedule) IsCustom() bool { return len(s.flexible)+len(s.clock) > 0 }

// Period returns the shortest of the intervals, or an hour for times of the clock alone.
func (s *Schedule) Period() time.Duration { return cmp.Or(s.shortest(), time.Hour) }

// shortest returns the shortest of the intervals, or zero for times of the clock alone.
func (s *Schedule) shortest() time.Duration {
	shortest := s.Interval
	for _, f := range s.flexible {
		if f.interval > 0 && (shortest == 0 || f.interval < shortest) {
			shortest = f.interval
		}
	}
	return shortest
}

// horizon bounds the search for the next time of a schedule: 29 February on a given day of the week.
const horizon = 41 * 366 * 24 * time.Hour

// Next returns when, after now, an item is collected next. The wall clock in now's location counts. The seed moves the
// times within an interval, so that nodes have different ones. It is zero if no time follows.
func (s *Schedule) Next(now time.Time, seed uint64) (next time.Time) {
	for at := now; at.Sub(now) <= 8*24*time.Hour; {
		interval, change := s.intervalAt(at)
		if interval > 0 {
			from := at.UnixNano()
			if at.After(now) {
				from-- // the first moment of later hours counts
			}
			due := time.Unix(0, int64(NextAtPhase(time.Duration(from), interval, time.Duration(seed%uint64(interval))))).In(now.Location())
			if change.IsZero() || !due.After(change) {
				next = due
				break
			}
		}
		if change.IsZero() {
			break
		}
		at = change
	}
	for _, c := range s.clock {
		if at := c.next(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// intervalAt returns the interval at a time, and the time of the next change. Of several flexible intervals the shortest counts.
func (s *Schedule) intervalAt(t time.Time) (interval time.Duration, change time.Time) {
	interval, found := s.Interval, false
	year, month, day := t.Date()
	for _, f := range s.flexible {
		for ahead := range 8 {
			start := time.Date(year, month, day+ahead, f.start/60, f.start%60, 0, 0, t.Location())
			end := time.Date(year, month, day+ahead, f.end/60, f.end%60, 0, 0, t.Location())
			if weekday := (int(t.Weekday()) + ahead + 6) % 7; f.days>>weekday&1 == 0 {
				continue
			}
			if !t.Before(start) && t.Before(end) && (!found || f.interval < interval) {
				interval, found = f.interval, true
			}
			for _, edge := range [...]time.Time{start, end} {
				if edge.After(t) && (change.IsZero() || edge.Before(change)) {
					change = edge
				}
			}
		}
	}
	return interval, change
}

// next returns the first of the times after now, or zero.
func (c *clockTimes) next(now time.Time) time.Time {
	zone := now.Location()
	t := now.Truncate(time.Second).Add(time.Second)
	for t.Sub(now) < horizon {
		year, month, day := t.Date()
		hour, minute, second := t.Clock()
		weekday := (int(t.Weekday())+6)%7 + 1
		switch {
		case c.days>>day&1 == 0 || c.weekdays>>weekday&1 == 0:
			t = laterOf(t, time.Date(year, month, day+1, 0, 0, 0, 0, zone))
		case c.hours>>hour&1 == 0 || c.namesHour && isRepeatedTime(t):
			t = t.Add(time.Hour - time.Duration(minute)*time.Minute - time.Duration(second)*time.Second)
		case c.minutes>>minute&1 == 0:
			t = t.Add(time.Minute - time.Duration(second)*time.Second)
		case c.seconds>>second&1 == 0:
			t = t.Add(time.Second)
		default:
			return t
		}
	}
	return time.Time{}
}

// laterOf returns the start of the next day, or an hour later. The hour counts where the clock skips or repeats midnight.
func laterOf(t, midnight time.Time) time.Time {
	if midnight.After(t) {
		return midnight
	}
	return t.Add(time.Hour)
}
