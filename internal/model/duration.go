package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is written with a unit: 500ms, 30s, 5m, 1h30m, 7d. A bare number is an
// error that says so.
type Duration time.Duration

// ParseDuration reads time.ParseDuration's forms and whole days ("7d").
func ParseDuration(text string) (Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			return Duration(time.Duration(n) * 24 * time.Hour), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, numeric := strconv.ParseFloat(text, 64); numeric == nil {
			return 0, fmt.Errorf("duration %q has no unit: write %ss for seconds, %sm for minutes", text, text, text)
		}
		return 0, fmt.Errorf("duration %q: want a number with a unit, such as 30s, 5m or 1h", text)
	}
	return Duration(d), nil
}

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

// MarshalJSON writes the form that ParseDuration reads.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON refuses a bare number with a sentence that says what to write.
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

// ParseSize reads bytes with or without a unit.
func ParseSize(text string) (Size, error) {
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			if n, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err == nil && n >= 0 {
				return Size(n * float64(u.bytes)), nil
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("size %q: want bytes with a unit, such as 64KiB or 4GiB", text)
	}
	return Size(n), nil
}

func (s Size) String() string {
	for _, u := range sizeUnits[:3] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalJSON writes the form that ParseSize reads.
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

// MarshalJSON writes a string for a shell line and a list for a program.
func (c Command) MarshalJSON() ([]byte, error) {
	if c.Argv != nil {
		return json.Marshal(c.Argv)
	}
	return json.Marshal(c.Shell)
}

// UnmarshalJSON reads either form.
func (c *Command) UnmarshalJSON(data []byte) error {
	*c = Command{}
	if err := json.Unmarshal(data, &c.Shell); err == nil {
		return nil
	}
	if err := json.Unmarshal(data, &c.Argv); err != nil {
		return fmt.Errorf("command: want a string (run by the shell) or a list (run without one)")
	}
	return nil
}
