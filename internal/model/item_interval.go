package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Interval says how often an item is collected. It is a duration such as 30s, or a text with Zabbix macros or with Zabbix's
// custom intervals, such as {$NGINX.INTERVAL} or 1m;10s/1-5,09:00-18:00. It is empty for an item without interval.
type Interval string

// IntervalOf returns the interval of a fixed duration. It is empty for zero.
func IntervalOf(d Duration) Interval {
	if d == 0 {
		return ""
	}
	return Interval(d.String())
}

// Fixed returns the duration of the interval. ok is false for an interval with macros or custom intervals.
func (i Interval) Fixed() (d Duration, ok bool) {
	if i == "" {
		return 0, true
	}
	d, err := ParseDuration(string(i))
	return d, err == nil
}

// HasMacros reports whether macros of a node or a discovered entity decide the interval.
func (i Interval) HasMacros() bool {
	return strings.Contains(string(i), "{$") || strings.Contains(string(i), "{#")
}

// IsCustom reports whether the text has custom intervals. They are flexible intervals or times of the clock.
func (i Interval) IsCustom() bool { return strings.Contains(string(i), ";") }

// First returns the interval outside of custom intervals. It is zero for none, and for a text that is no time.
func (i Interval) First() time.Duration {
	if d, ok := i.Fixed(); ok {
		return time.Duration(d)
	}
	first, _, _ := strings.Cut(string(i), ";")
	d, _ := ParseZabbixTime(first)
	return d
}

// UnmarshalJSON decodes a JSON text as an interval. A text without macros and custom intervals is a duration.
func (i *Interval) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	if *i = Interval(text); i.HasMacros() || i.IsCustom() {
		return nil
	}
	d, err := ParseDuration(text)
	*i = IntervalOf(d)
	return err
}

// zabbixUnits has the units of times in Zabbix.
var zabbixUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

// ParseZabbixTime parses a time in the form of Zabbix, such as 30, 30s, 5m or 1d. At most a year is allowed.
func ParseZabbixTime(text string) (time.Duration, bool) {
	unit := time.Second
	if n := len(text); n > 0 && zabbixUnits[text[n-1]] != 0 {
		unit, text = zabbixUnits[text[n-1]], text[:n-1]
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || time.Duration(n) > MaxInterval/unit {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// ExpandInterval returns an interval with values in place of its macros. A value is a duration, or a time as Zabbix writes
// it, such as 300.
func (m *MacroValues) ExpandInterval(i Interval) (Interval, error) {
	if _, ok := i.Fixed(); ok {
		return i, nil
	}
	text, err := m.Expand(string(i))
	if err != nil {
		return "", err
	}
	if d, ok := ParseZabbixTime(text); ok && d > 0 {
		return IntervalOf(Duration(d)), nil
	}
	if out := Interval(text); out.IsCustom() {
		return out, nil
	}
	d, err := ParseDuration(text)
	if err != nil || d < MinItemInterval || time.Duration(d) > MaxInterval {
		return "", fmt.Errorf("the interval %s is %q here: expected a time of 1s to 366d, such as 5m", i, Truncate(text, 100))
	}
	return IntervalOf(d), nil
}

// MinItemInterval is the shortest interval of an item.
const MinItemInterval = Duration(time.Second)

// WithMacros returns the items of a Template with values in place of the macros in intervals and units. An item whose
// macro has no value keeps the text.
func (m *MacroValues) WithMacros(items []Item) []Item {
	out := items
	for i := range items {
		of := items[i]
		if interval, err := m.ExpandInterval(of.Interval); err == nil {
			of.Interval = interval
		}
		if unit, err := m.Expand(of.Unit); err == nil && unit != of.Unit {
			of.Unit = Truncate(strings.Join(strings.Fields(unit), " "), MaxText)
		}
		if of.Interval == items[i].Interval && of.Unit == items[i].Unit {
			continue
		}
		if &out[0] == &items[0] {
			out = slices.Clone(items)
		}
		out[i] = of
	}
	return out
}

// expandLostAfter returns the time of a discovery rule for lost entities, with values in place of macros. A value is now,
// never, a duration, or a time as Zabbix writes it, such as 86400.
func (m *MacroValues) expandLostAfter(text string) (Duration, error) {
	value, err := m.Expand(text)
	if err != nil {
		return 0, err
	}
	if d, ok := ParseZabbixTime(value); ok {
		return Duration(d), nil
	}
	d, err := ParseLostAfter(value)
	if err != nil {
		err = fmt.Errorf("the time %s of lost entities is %q here: expected now, never, or a time such as 7d", text, Truncate(value, 100))
	}
	return d, err
}

// WithMacros returns the discovery rule with values in place of the macros in its times of lost entities.
func (r *DefinitionRule) WithMacros(m *MacroValues) (out *DefinitionRule, err error) {
	if r.DisableAfterText == "" && r.DeleteAfterText == "" {
		return r, nil
	}
	out = new(*r)
	if r.DisableAfterText != "" {
		out.DisableAfter, err = m.expandLostAfter(r.DisableAfterText)
	}
	if r.DeleteAfterText != "" && err == nil {
		out.DeleteAfter, err = m.expandLostAfter(r.DeleteAfterText)
	}
	return out, err
}
