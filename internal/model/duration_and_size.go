package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span written with a unit, such as 500ms, 30s, 5m, 1h30m or 7d. A bare number is an error.
type Duration time.Duration

// ParseDuration parses a duration in the form of time.ParseDuration or with days, weeks and years. Examples are 7d, 1w
// and 1d12h.
func ParseDuration(text string) (Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			return Duration(time.Duration(n) * 24 * time.Hour), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		if long, ok := parseCalendarUnits(text); ok {
			return long, nil
		}
		if _, numeric := strconv.ParseFloat(text, 64); numeric == nil {
			return 0, fmt.Errorf("duration %q has no unit: write %ss for seconds, %sm for minutes", text, text, text)
		}
		return 0, fmt.Errorf("duration %q: expected a number with a unit, such as 30s, 5m or 1h", text)
	}
	return Duration(d), nil
}

// parseCalendarUnits parses a duration with Prometheus' longer units in front, such as 1y, 2w or 1d12h. A year has 365
// days.
func parseCalendarUnits(text string) (sum Duration, ok bool) {
	for _, unit := range [...]struct {
		name string
		days int
	}{{"y", 365}, {"w", 7}, {"d", 1}} {
		count, rest, found := strings.Cut(text, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(count, 10, 31)
		if err != nil || n > 1000 {
			return 0, false
		}
		sum, text, ok = sum+Duration(n)*Duration(unit.days)*Duration(24*time.Hour), rest, true
	}
	if !ok || text == "" {
		return sum, ok
	}
	rest, err := time.ParseDuration(text)
	return sum + Duration(rest), err == nil && rest >= 0
}

// String formats the duration in the form that ParseDuration reads.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	if t := time.Duration(d); t%(24*time.Hour) == 0 {
		return strconv.Itoa(int(t/(24*time.Hour))) + "d"
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalJSON writes the duration as text that ParseDuration accepts
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON decodes a JSON text such as 5m as a duration. The error for a bare number names the correct
// form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	v, err := ParseDuration(text)
	*d = v
	return err
}

// Size is a number of bytes, written 65536, 64KiB, 1MiB or 4GiB.
type Size int64

var sizeUnits = [...]struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// ParseSize parses a number of bytes with or without a unit, such as 64KiB.
func ParseSize(text string) (Size, error) {
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if bytes := n * float64(u.bytes); err == nil && bytes >= 0 && bytes < 1<<63 {
				return Size(bytes), nil
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("size %q: expected bytes with a unit, such as 64KiB or 4GiB", text)
	}
	return Size(n), nil
}

// String formats the size in the form that ParseSize reads.
func (s Size) String() string {
	for _, u := range sizeUnits[:3] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Approximate formats the size for people, such as 1.2 GiB.
func (s Size) Approximate() string {
	v := float64(s)
	for _, u := range [...]struct {
		name  string
		bytes float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if v >= u.bytes || v <= -u.bytes {
			return strconv.FormatFloat(v/u.bytes, 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + " B"
}

// MarshalJSON writes the size as text that ParseSize accepts
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads a string with a unit or a bare number of bytes.
func (s *Size) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	v, err := ParseSize(text)
	*s = v
	return err
}

// Time is a point in time, in the formats that resource files allow.
type Time struct{ time.Time }

// UnmarshalJSON reads a time in RFC 3339, or with a space for the T and without seconds. An offset is required.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00"} {
			if at, err := time.Parse(form, text); err == nil {
				*t = Time{at.UTC()}
				return nil
			}
		}
	}
	return Errorf(Invalid, "%s is not a time: write 2026-12-24T18:00:00Z, or with an offset 2026-12-24T19:00:00+01:00", data)
}

// CountNoun formats a number with its noun, such as 1 node, 2 nodes or 3 proxies.
func CountNoun[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.HasSuffix(noun, "ey") {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ListFirst formats the first names of a list, followed by the number of names left out. An example is "a, b
// and 3 more".
func ListFirst(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Truncate cuts a text to `most` bytes and appends an ellipsis to a cut text
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Age formats the time between a past moment and now, such as 45s or 2h10m. For a zero then it returns never.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return TimeSpan(now.Sub(then))
}

// TimeSpan formats a duration in its two largest units, rounded down.
func TimeSpan(d time.Duration) string { return spanUnits(d, time.Duration.Truncate) }

// RoundTimeSpan formats a duration in its two largest units, rounded to the nearest.
func RoundTimeSpan(d time.Duration) string { return spanUnits(d, time.Duration.Round) }

// spanUnits formats a duration in its two largest units, such as 2h10m. The function whole truncates or rounds the
// duration to the smaller unit.
func spanUnits(d time.Duration, whole func(d, unit time.Duration) time.Duration) string {
	d = max(d, 0)
	unit := 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		unit = time.Second
	case d < 2*time.Hour:
		unit = time.Minute
	case d < 48*time.Hour:
		unit = 10 * time.Minute
	}
	return Duration(whole(d, unit)).String()
}
