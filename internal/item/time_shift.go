package item

import (
	"strconv"
	"strings"
	"time"
)

// TimeShift moves a time in steps, such as /d and -1h in Zabbix's now/d-1h.
type TimeShift []ShiftStep

// ShiftStep is one step of a time shift, such as /d or -1h. /d is the start of the day.
type ShiftStep struct {
	Operator byte // '/', '-' or '+'
	Unit     byte // s m h d w M y
	Amount   int  // negative for '-'
}

// UnitSpans has the longest length of each unit of a time.
var UnitSpans = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour, 'M': 31 * 24 * time.Hour, 'y': 366 * 24 * time.Hour}

// maxSpan bounds the length of periods and time shifts.
const maxSpan = 25 * 366 * 24 * time.Hour

// ParseTimeShift parses the steps of a time shift, such as /d-1h. It returns the problem as text.
func ParseTimeShift(text string) (shift TimeShift, problem string) {
	for ok := true; text != ""; {
		step := ShiftStep{Operator: text[0]}
		switch step.Operator {
		case '/':
			if len(text) < 2 || strings.IndexByte("hdwMy", text[1]) < 0 {
				return nil, "expected a unit h, d, w, M or y after / in the time shift"
			}
			step.Unit, text = text[1], text[2:]
		case '-', '+':
			if step.Amount, step.Unit, text, ok = ParseAmount(text[1:]); !ok {
				return nil, "expected a time such as 1h after - or + in the time shift"
			}
			if step.Operator == '-' {
				step.Amount = -step.Amount
			}
		default:
			return nil, "expected /, - or + in the time shift"
		}
		shift = append(shift, step)
	}
	return shift, ""
}

// ParseAmount parses the number with an optional unit, such as 5m, at the start of a text.
func ParseAmount(text string) (amount int, unit byte, rest string, ok bool) {
	i := 0
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	amount, err := strconv.Atoi(text[:i])
	if err != nil {
		return 0, 0, "", false
	}
	unit = 's'
	if i < len(text) && UnitSpans[text[i]] != 0 {
		unit = text[i]
		i++
	}
	return amount, unit, text[i:], int64(amount) <= int64(maxSpan/UnitSpans[unit])
}

// Delay returns the longest time between a time and its shifted time.
func (s TimeShift) Delay() (d time.Duration) {
	for _, step := range s {
		if step.Operator == '/' {
			d += UnitSpans[step.Unit]
		} else {
			d -= time.Duration(step.Amount) * UnitSpans[step.Unit]
		}
	}
	return d
}

// Apply moves a time by all steps of the shift.
func (s TimeShift) Apply(t time.Time) time.Time {
	for _, step := range s {
		t = step.Apply(t)
	}
	return t
}

// Apply moves a time by one step of a time shift, such as /d or -1h. It rounds down to a unit, or adds or
// subtracts an amount.
func (s ShiftStep) Apply(t time.Time) time.Time {
	if s.Operator == '/' {
		year, month, day := t.Date()
		switch s.Unit {
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
	switch s.Unit {
	case 'd':
		return t.AddDate(0, 0, s.Amount)
	case 'w':
		return t.AddDate(0, 0, 7*s.Amount)
	case 'M', 'y':
		months := s.Amount
		if s.Unit == 'y' {
			months *= 12
		}
		moved := t.AddDate(0, months, 0)
		if moved.Day() != t.Day() { // 31 March less a month is the last day of February
			moved = moved.AddDate(0, 0, -moved.Day())
		}
		return moved
	}
	return t.Add(time.Duration(s.Amount) * UnitSpans[s.Unit])
}
