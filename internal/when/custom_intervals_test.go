package when

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestScheduleNext computes the next times of schedules with custom intervals, and expects the times that Zabbix has.
func TestScheduleNext(t *testing.T) {
	paris, err := time.LoadLocation("Europe/Paris")
	testenv.NoError(t, err)
	for _, c := range []struct {
		text, from string
		want       []string // empty: never
	}{
		{"30s", "2026-12-01T10:00:10+01:00", []string{"2026-12-01T10:00:30+01:00", "2026-12-01T10:01:00+01:00"}},
		{"0;h23m50", "2026-12-01T10:00:00+01:00", []string{"2026-12-01T23:50:00+01:00", "2026-12-02T23:50:00+01:00"}},
		{"1h;m/30", "2026-12-01T10:05:00+01:00", []string{"2026-12-01T10:30:00+01:00", "2026-12-01T11:00:00+01:00"}},
		{"0;wd1-5h9,18m30", "2026-12-04T10:00:00+01:00", []string{"2026-12-04T18:30:00+01:00", "2026-12-07T09:30:00+01:00"}},
		{"0;md1-7wd1h6", "2026-12-01T00:00:00+01:00", []string{"2026-12-07T06:00:00+01:00", "2027-01-04T06:00:00+01:00"}},
		{"0;md31", "2026-12-31T00:00:00+01:00", []string{"2027-01-31T00:00:00+01:00", "2027-03-31T00:00:00+02:00"}},
		{"0;h10m0-10/5s15", "2026-12-01T10:01:00+01:00", []string{"2026-12-01T10:05:15+01:00", "2026-12-01T10:10:15+01:00", "2026-12-02T10:00:15+01:00"}},
		{"1m;10s/1-5,09:00-18:00", "2026-12-04T17:59:45+01:00", []string{"2026-12-04T17:59:50+01:00", "2026-12-04T18:00:00+01:00", "2026-12-04T18:01:00+01:00"}},
		{"1m;10s/1-5,09:00-18:00", "2026-12-07T08:59:01+01:00", []string{"2026-12-07T09:00:00+01:00", "2026-12-07T09:00:10+01:00"}},
		{"1m;20s/1-7,00:00-24:00;30s/1-7,00:00-24:00", "2026-12-07T08:59:01+01:00", []string{"2026-12-07T08:59:20+01:00"}},
		{"0;1h/6-7,00:00-24:00", "2026-12-01T10:00:00+01:00", []string{"2026-12-05T00:00:00+01:00", "2026-12-05T01:00:00+01:00"}},
		{"1m;0/2,10:00-11:00", "2026-12-01T09:59:30+01:00", []string{"2026-12-01T10:00:00+01:00", "2026-12-01T11:00:00+01:00"}},
		{"0;h2m30", "2026-10-24T12:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}}, // the clock repeats the hour
		{"0;h2m30", "2026-03-28T12:00:00+01:00", []string{"2026-03-30T02:30:00+02:00"}},                              // the clock skips the hour
		{"0;md29wd7", "2026-12-01T00:00:00+01:00", []string{"2027-08-29T00:00:00+02:00"}},
		{"0;1h/1,09:15-09:45", "2026-12-01T00:00:00+01:00", nil},
	} {
		s, err := ScheduleOf(model.Interval(c.text), nil)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		at, err := time.ParseInLocation(time.RFC3339, c.from, paris)
		testenv.NoError(t, err)
		at = at.In(paris)
		for _, want := range c.want {
			if at = s.Next(at, 0); at.Format(time.RFC3339) != want {
				t.Errorf("%s after %s: %s, expected %s", c.text, c.from, at.Format(time.RFC3339), want)
				break
			}
		}
		if next := s.Next(at, 0); c.want == nil && !next.IsZero() {
			t.Errorf("%s: %s, expected no time", c.text, next)
		}
	}
}

// TestScheduleOfMacros resolves intervals with macros, and expects durations, custom intervals, or errors that name macro
// and value.
func TestScheduleOfMacros(t *testing.T) {
	values, err := model.NewMacroValues(map[string]string{"{$S}": "300", "{$M}": "5m", "{$W}": "1w", "{$BAD}": "soon", "{$ZERO}": "0", "{$CUSTOM}": "1m;h9", "{$HOURS}": "1-5,09:00-18:00", "{$LONG}": "2y"})
	testenv.NoError(t, err)
	for text, want := range map[string]string{
		"{$S}": "5m0s", "{$M}": "5m0s", "{$W}": "168h0m0s", "1m30s": "1m30s", "{$S};10s/{$HOURS}": "custom 10s", "{$CUSTOM}": "custom 1m0s", "0;h9": "custom 1h0m0s", `{{$M}.regsub("(.*)m","\1h")}`: "5h0m0s",
		"{$BAD}":                `!the interval {$BAD} is "soon" here: expected a time of 1s to 366d, such as 5m`,
		"{$ZERO}":               `!the interval {$ZERO} is "0" here: expected a time of 1s to 366d, such as 5m`,
		"{$LONG}":               `!the interval {$LONG} is "2y" here: expected a time of 1s to 366d, such as 5m`,
		"{$M};{$BAD}":           `!the interval {$M};{$BAD} is "5m;soon" here: "soon" is no custom interval`,
		"{$NONE}":               "!the macro {$NONE} has no value here",
		"2d;h9":                 `!"2d" is no interval: expected a time of at most 1d`,
		"0;0/1,0:00-24:00":      `!"0;0/1,0:00-24:00" collects never`,
		"1m;10s/0-5,9:00-18:00": `!"10s/0-5,9:00-18:00" is no flexible interval`,
		"1m;10s/1-5,9:00-8:00":  `!"10s/1-5,9:00-8:00" is no flexible interval`,
		"1m;wd1md2":             `!"wd1md2" is no custom interval`, "1m;h24": `!"h24" is no custom interval`, "1m;m5/2": `!"m5/2" is no custom interval`, "1m;h": `!"h" is no custom interval`, "1m;": `!"" is no custom interval`,
	} {
		s, err := ScheduleOf(model.Interval(text), values)
		got := ""
		switch {
		case err != nil:
			got = "!" + err.Error()
		case s.IsCustom():
			got = "custom " + s.Period().String()
		default:
			got = s.Interval.String()
		}
		if got != want && (!strings.HasPrefix(want, "!") || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
	if _, err := FixedInterval("1m;h9", values); err == nil {
		t.Error("a computed item has custom intervals")
	}
	if _, err := ScheduleOf("{$NONE}", values); !errors.As(err, new(*model.MissingMacroError)) {
		t.Errorf("missing value: %v", err)
	}
}

// FuzzSchedule parses random texts as schedules, and expects later next times, found quickly.
func FuzzSchedule(f *testing.F) {
	for _, text := range []string{"1m;10s/1-5,09:00-18:00", "0;md1-7wd1h9m/15s5", "0;md29-31wd7", "30;h1,2-5/2", "1m;0/1-7,00:00-24:00"} {
		f.Add(text, int64(1_790_000_000), uint64(7))
	}
	paris, err := time.LoadLocation("Europe/Paris")
	testenv.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string, unix int64, seed uint64) {
		s, err := ScheduleOf(model.Interval(text), nil)
		if err != nil || unix < 0 || unix > 1<<34 {
			return
		}
		now := time.Unix(unix, 0).In(paris)
		if next := s.Next(now, seed); !next.IsZero() && !next.After(now) {
			t.Fatalf("%q after %s: %s", text, now, next)
		}
	})
}
