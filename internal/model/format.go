package model

import (
	"fmt"
	"strings"
	"time"
)

// CountNoun returns a number with its noun: 1 node, 2 nodes, 3 proxies.
func CountNoun[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ListFirst joins the first names and the number of the others: a, b and 3 more.
func ListFirst(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Truncate cuts a text to most bytes and marks the cut.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Age returns the time since then in its largest units: 45s, 3m, 2h10m, 5d; zero: never.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return TimeSpan(now.Sub(then))
}

// TimeSpan returns a duration in its largest units, rounded down.
func TimeSpan(d time.Duration) string { return spanUnits(d, time.Duration.Truncate) }

// RoundTimeSpan returns a duration in its largest units, rounded to the nearest.
func RoundTimeSpan(d time.Duration) string { return spanUnits(d, time.Duration.Round) }

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
