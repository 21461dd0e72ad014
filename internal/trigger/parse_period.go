package trigger

import (
	"strconv"
	"strings"
	"time"
)

// period is the second argument of a history function, such as 5m or #5. 5m is a time span, #5 a number of values. A
// time shift may follow. The end is the time of evaluation, moved by shift.
type period struct {
	count int32         // #5; 0: by time
	span  time.Duration // 5m; 0 and no count: all that the function wants
	month int           // 1M, 1y: the span is of months
	shift []shiftStep
	zone  *time.Location
	// exclusive leaves out a value exactly at the end and takes one at the start: periods of trends are [start, end).
	exclusive bool
}

// shiftStep is one step of a time shift, such as /d in now/d or -1h in now-1h.
type shiftStep struct {
	operator byte // '/', '-' or '+'
	unit     byte // s m h d w M y
	amount   int
}

var unitSpans = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour, 'M': 31 * 24 * time.Hour, 'y': 366 * 24 * time.Hour}

// maxSpan bounds the length of periods and time shifts.
const maxSpan = 25 * 366 * 24 * time.Hour

// maxCount bounds the number of values in a period such as #5.
const maxCount = 10_000

// parsePeriod parses a period such as #5, 5m, 1h:now-1d or 1d:now/d. It returns the problem as text.
func parsePeriod(text string, zone *time.Location) (p period, problem string) {
	p.zone = zone
	span, shift, shifted := strings.Cut(text, ":")
	if digits, ok := strings.CutPrefix(span, "#"); ok {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > maxCount {
			return p, "expected a number of values from #1 to #10000"
		}
		p.count = int32(n)
	} else if span != "" {
		amount, unit, rest, ok := parseAmount(span)
		if !ok || rest != "" || amount == 0 {
			return p, "expected a period such as 5m, 1h or #5"
		}
		p.span = time.Duration(amount) * unitSpans[unit]
		switch unit {
		case 'M':
			p.month = amount
		case 'y':
			p.month = 12 * amount
		}
	}
	if !shifted {
		return p, ""
	}
	rest, ok := strings.CutPrefix(shift, "now")
	if !ok || rest == "" {
		return p, "expected a time shift such as :now-1h or :now/d"
	}
	for rest != "" {
		step := shiftStep{operator: rest[0]}
		switch step.operator {
		case '/':
			if len(rest) < 2 || strings.IndexByte("hdwMy", rest[1]) < 0 {
				return p, "expected a unit h, d, w, M or y after / in the time shift"
			}
			step.unit, rest = rest[1], rest[2:]
		case '-', '+':
			if step.amount, step.unit, rest, ok = parseAmount(rest[1:]); !ok {
				return p, "expected a time such as 1h after - or + in the time shift"
			}
			if step.operator == '-' {
				step.amount = -step.amount
			}
		default:
			return p, "expected /, - or + in the time shift"
		}
		p.shift = append(p.shift, step)
	}
	if p.delay() < 0 {
		return p, "the time shift leads into the future"
	}
	return p, ""
}

// parseAmount parses the number with an optional unit, such as 5m, at the start of a text.
func parseAmount(text string) (amount int, unit byte, rest string, ok bool) {
	i := 0
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	amount, err := strconv.Atoi(text[:i])
	if err != nil {
		return 0, 0, "", false
	}
	unit = 's'
	if i < len(text) && unitSpans[text[i]] != 0 {
		unit = text[i]
		i++
	}
	return amount, unit, text[i:], int64(amount) <= int64(maxSpan/unitSpans[unit])
}

// delay returns the longest possible time between the end of the period and the evaluation.
func (p *period) delay() time.Duration {
	var d time.Duration
	for _, step := range p.shift {
		if step.operator == '/' {
			d += unitSpans[step.unit]
		} else {
			d -= time.Duration(step.amount) * unitSpans[step.unit]
		}
	}
	return d
}

// end returns when the period of an evaluation at `now` ends, in nanoseconds.
func (p *period) end(now int64) int64 {
	if len(p.shift) == 0 {
		return now
	}
	t := time.Unix(0, now).In(p.zone)
	for _, step := range p.shift {
		t = step.apply(t)
	}
	if p.exclusive {
		return t.UnixNano() - 1
	}
	return t.UnixNano()
}

// startOf returns when a period with a given end begins, in nanoseconds.
func (p *period) startOf(end int64) int64 {
	if p.month == 0 {
		return end - int64(p.span)
	}
	t := shiftStep{'-', 'M', -p.month}.apply(time.Unix(0, end+1).In(p.zone))
	return t.UnixNano() - 1
}

// apply moves a time by one step of a time shift, such as /d or -1h. It rounds down to a unit, or adds or
// subtracts an amount.
func (s shiftStep) apply(t time.Time) time.Time {
	if s.operator == '/' {
		year, month, day := t.Date()
		switch s.unit {
		case 'h':
			return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
		case 'w':
			day -= (int(t.Weekday()) + 6) % 7 // weeks begin on Monday
		case 'M':
			day = 1
		case 'y':
			month, day = time.January, 1
		}
		return time.Date(year, month, day, 0, 0, 0, 0, t.Location())
	}
	switch s.unit {
	case 'd':
		return t.AddDate(0, 0, s.amount)
	case 'w':
		return t.AddDate(0, 0, 7*s.amount)
	case 'M', 'y':
		months := s.amount
		if s.unit == 'y' {
			months *= 12
		}
		moved := t.AddDate(0, months, 0)
		if moved.Day() != t.Day() { // 31 March less a month is the last day of February
			moved = moved.AddDate(0, 0, -moved.Day())
		}
		return moved
	}
	return t.Add(time.Duration(s.amount) * unitSpans[s.unit])
}
