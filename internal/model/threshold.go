package model

import (
	"fmt"
	"math"
)

// Range is a threshold by the Nagios convention: a value outside Start … End alerts,
// or, with Inside, one within.
type Range struct {
	Start, End float64 // may be infinite
	Inside     bool
}

// ParseRange reads "10" (alert below 0 or above 10), "10:" (below 10), "~:10" (above
// 10), "10:20" (outside), "@10:20" (inside, ends included).
func ParseRange(text string) (Range, error) {
	r := Range{Start: 0, End: math.Inf(1)}
	bad := func() (Range, error) {
		return Range{}, fmt.Errorf("threshold %q: want 10, 10:, ~:10, 10:20 or @10:20", text)
	}
	body := text
	if len(body) > 0 && body[0] == '@' {
		r.Inside, body = true, body[1:]
	}
	start, end, both := "", body, false
	for i := range len(body) {
		if body[i] == ':' {
			start, end, both = body[:i], body[i+1:], true
			break
		}
	}
	number := func(s string, into *float64) bool {
		if len(s) == 0 || numberPrefix([]byte(s)) != len(s) {
			return false
		}
		v, err := parseNumber([]byte(s))
		*into = v
		return err == nil
	}
	switch {
	case start == "~":
		r.Start = math.Inf(-1)
	case start != "" && !number(start, &r.Start):
		return bad()
	}
	if end != "" || !both {
		if !number(end, &r.End) {
			return bad()
		}
	}
	if r.Start > r.End {
		return bad()
	}
	return r, nil
}

// Violates reports whether the value violates the threshold.
func (r Range) Violates(v float64) bool {
	within := v >= r.Start && v <= r.End
	return within == r.Inside
}

func (r Range) String() string { return string(r.append(nil)) }

func (r Range) append(dst []byte) []byte {
	if r.Inside {
		dst = append(dst, '@')
	}
	switch {
	case math.IsInf(r.Start, -1):
		dst = append(dst, '~', ':')
	case r.Start != 0 || math.IsInf(r.End, 1):
		dst = append(appendNumber(dst, r.Start), ':')
	}
	if !math.IsInf(r.End, 1) {
		dst = appendNumber(dst, r.End)
	}
	return dst
}
