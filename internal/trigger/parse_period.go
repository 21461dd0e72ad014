package trigger

import (
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// period is the second argument of a history function, such as 5m or #5. 5m is a time span, #5 a number of values. A
// time shift may follow. The end is the time of evaluation, moved by shift.
type period struct {
	count int32         // #5; 0: by time
	span  time.Duration // 5m; 0 and no count: all that the function wants
	month int           // 1M, 1y: the span is of months
	shift item.TimeShift
	zone  *time.Location
	// exclusive leaves out a value exactly at the end and takes one at the start: periods of trends are [start, end).
	exclusive bool
}

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
		amount, unit, rest, ok := item.ParseAmount(span)
		if !ok || rest != "" || amount == 0 {
			return p, "expected a period such as 5m, 1h or #5"
		}
		p.span = time.Duration(amount) * item.UnitSpans[unit]
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
	if p.shift, problem = item.ParseTimeShift(rest); problem != "" {
		return p, problem
	}
	if p.shift.Delay() < 0 {
		return p, "the time shift leads into the future"
	}
	return p, ""
}

// end returns when the period of an evaluation at `now` ends, in nanoseconds.
func (p *period) end(now int64) int64 {
	if len(p.shift) == 0 {
		return now
	}
	t := p.shift.Apply(time.Unix(0, now).In(p.zone))
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
	t := item.ShiftStep{Operator: '-', Unit: 'M', Amount: -p.month}.Apply(time.Unix(0, end+1).In(p.zone))
	return t.UnixNano() - 1
}
