package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span written with a unit: 500ms, 30s, 5m, 1h30m, 7d. A bare number is an error.
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

// UnmarshalJSON refuses a bare number and names the right form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	v, err := ParseDuration(text)
	*d = v
	return err
}
