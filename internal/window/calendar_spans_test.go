package window

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// zonedTime parses the text of a date and time in a named time zone.
func zonedTime(t *testing.T, text, zone string) time.Time {
	t.Helper()
	location, err := time.LoadLocation(zone)
	testenv.NoError(t, err)
	parsed, err := time.ParseInLocation("Mon 2006-01-02 15:04 MST", text, location)
	if err != nil {
		parsed, err = time.ParseInLocation("2006-01-02 15:04", text, location)
	}
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestCalendarActive expects Active to report whether a calendar is active, and until when.
func TestCalendarActive(t *testing.T) {
	nights := []model.WindowSpan{{During: "22:00-07:00"}}
	weekend := []model.WindowSpan{{During: "sat,sun"}}
	for _, test := range []struct {
		name   string
		spans  []model.WindowSpan
		when   string // in Paris
		inside bool
		until  string
	}{
		{"before the night", nights, "2026-11-21 21:59", false, ""},
		{"it begins", nights, "2026-11-21 22:00", true, "2026-11-22 07:00"},
		{"past midnight", nights, "2026-11-22 03:00", true, "2026-11-22 07:00"},
		{"it is over", nights, "2026-11-22 07:00", false, ""},
		{"two days are one span", weekend, "2026-11-21 12:00", true, "2026-11-23 00:00"},
		{"not on Friday", weekend, "2026-11-20 23:59", false, ""},
		{"a range over the end of the week", []model.WindowSpan{{During: "fri-mon 09:00-10:00"}}, "2026-11-22 09:30", true, "2026-11-22 10:00"},
		{"spans that touch", []model.WindowSpan{{During: "12:00-13:00"}, {During: "13:00-14:00"}}, "2026-11-21 12:30", true, "2026-11-21 14:00"},
		{"after a tick", []model.WindowSpan{{Cron: "0 2 * * sun", For: model.Duration(3 * time.Hour)}}, "2026-11-22 04:59", true, "2026-11-22 05:00"},
		{"long after it", []model.WindowSpan{{Cron: "0 2 * * sun", For: model.Duration(3 * time.Hour)}}, "2026-11-22 05:00", false, ""},
		{"holidays", []model.WindowSpan{{From: "2026-12-24 18:00", To: "2026-12-27 08:00"}}, "2026-12-25 00:00", true, "2026-12-27 08:00"},
		{"the night that skips 02:00 to 03:00", []model.WindowSpan{{During: "01:00-03:00"}}, "2026-03-29 01:30", true, "2026-03-29 03:00"},
		{"the night that has 02:00 to 03:00 twice, until 02:00", []model.WindowSpan{{During: "00:00-02:00"}}, "2026-10-25 01:30", true, "Sun 2026-10-25 02:00 CEST"},
		{"it is over before the hour comes twice", []model.WindowSpan{{During: "00:00-02:00"}}, "Sun 2026-10-25 02:30 CEST", false, ""},
		{"a day that ends where clocks are set back to", []model.WindowSpan{{From: "2026-10-24 18:00", To: "2026-10-25 02:00"}}, "2026-10-25 01:30", true, "Sun 2026-10-25 02:00 CEST"},
		{"what it skips has no length", []model.WindowSpan{{During: "02:00-03:00"}}, "2026-03-29 03:00", false, ""},
	} {
		c, err := New("Europe/Paris", test.spans)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		until, inside := c.Active(zonedTime(t, test.when, "Europe/Paris"))
		if inside != test.inside || inside && !until.Equal(zonedTime(t, test.until, "Europe/Paris")) {
			t.Errorf("%s: at %s inside is %v until %s, want %v until %s", test.name, test.when, inside, until, test.inside, test.until)
		}
	}
}

// TestWindowInRepeatedHour expects a time span to be active in both passes of a repeated hour at clock changes.
func TestWindowInRepeatedHour(t *testing.T) {
	c, err := ParseDuring("02:00-03:00 Europe/Paris", "")
	testenv.NoError(t, err)
	first := time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC) // 02:00 for the first time
	until, inside := c.Active(first)
	if !inside || until.Sub(first) != 2*time.Hour {
		t.Errorf("inside %v, and it lasts %s: want the hour twice", inside, until.Sub(first))
	}
	if got := c.Next(first); !got.Equal(first.Add(25 * time.Hour)) {
		t.Errorf("the next one begins at %s, want the day after at 02:00, which is at %s", got, first.Add(25*time.Hour))
	}
}

// TestCronSpansWhenClocksChange computes cron time spans around clock changes, and compares start and end with
// a table. A span at a skipped time keeps its length, and a span at a repeated time starts once.
func TestCronSpansWhenClocksChange(t *testing.T) {
	for _, c := range []struct {
		what, zone, cron string
		length           time.Duration
		when             string // UTC
		inside           bool
		until            string
	}{
		{"it is skipped: before", "Europe/Paris", "30 2 * * *", 3 * time.Hour, "2026-03-29T00:59:00Z", false, ""},
		{"it is skipped: at the change", "Europe/Paris", "30 2 * * *", 3 * time.Hour, "2026-03-29T01:00:00Z", true, "2026-03-29T04:00:00Z"},
		{"it is skipped: later", "Europe/Paris", "30 2 * * *", 3 * time.Hour, "2026-03-29T03:59:00Z", true, "2026-03-29T04:00:00Z"},
		{"it is skipped in New York", "America/New_York", "30 2 * * *", 3 * time.Hour, "2026-03-08T07:00:00Z", true, "2026-03-08T10:00:00Z"},
		{"twice: before the first", "Europe/Paris", "30 2 * * *", time.Hour, "2026-10-25T00:29:00Z", false, ""},
		{"twice: the first", "Europe/Paris", "30 2 * * *", time.Hour, "2026-10-25T00:30:00Z", true, "2026-10-25T01:30:00Z"},
		{"twice: between", "Europe/Paris", "30 2 * * *", time.Hour, "2026-10-25T01:10:00Z", true, "2026-10-25T01:30:00Z"},
		{"twice: the second is none", "Europe/Paris", "30 2 * * *", time.Hour, "2026-10-25T01:30:00Z", false, ""},
		{"New York: before the first", "America/New_York", "30 1 * * *", 2 * time.Hour, "2026-11-01T05:29:00Z", false, ""},
		{"New York: the first", "America/New_York", "30 1 * * *", 2 * time.Hour, "2026-11-01T05:30:00Z", true, "2026-11-01T07:30:00Z"},
		{"New York: no hole", "America/New_York", "30 1 * * *", 2 * time.Hour, "2026-11-01T06:10:00Z", true, "2026-11-01T07:30:00Z"},
		{"New York: over", "America/New_York", "30 1 * * *", 2 * time.Hour, "2026-11-01T07:30:00Z", false, ""},
		{"every hour, the first", "Europe/Paris", "0 * * * *", 10 * time.Minute, "2026-10-25T00:05:00Z", true, "2026-10-25T00:10:00Z"},
		{"every hour, the second", "Europe/Paris", "0 * * * *", 10 * time.Minute, "2026-10-25T01:05:00Z", true, "2026-10-25T01:10:00Z"},
		{"every hour, the one before", "Europe/Paris", "50 * * * *", 20 * time.Minute, "2026-10-25T01:05:00Z", true, "2026-10-25T01:10:00Z"},
		{"a day", "Europe/Paris", "0 0 * * *", 24 * time.Hour, "2026-10-25T22:30:00Z", false, ""}, // the day has 25 hours
	} {
		calendar, err := New(c.zone, []model.WindowSpan{{Cron: c.cron, For: model.Duration(c.length)}})
		testenv.NoError(t, err)
		when, _ := time.Parse(time.RFC3339, c.when)
		until, inside := calendar.Active(when)
		if inside != c.inside || inside && until.UTC().Format(time.RFC3339) != c.until {
			t.Errorf("%s: at %s inside is %v until %s, want %v until %s", c.what, c.when, inside, until.UTC(), c.inside, c.until)
		}
	}
	for _, c := range [][4]string{
		{"Europe/Paris", "30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"Europe/Paris", "30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"Europe/Paris", "30 2 * * *", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"},
		{"America/New_York", "30 1 * * *", "2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z"},
		{"America/New_York", "30 1 * * *", "2026-11-01T05:40:00Z", "2026-11-02T06:30:00Z"},
		{"Europe/Paris", "0 * * * *", "2026-10-25T00:05:00Z", "2026-10-25T01:00:00Z"},
		{"Europe/Paris", "0 * 1 1 *", "2026-07-01T00:00:00Z", "2026-12-31T23:00:00Z"},
	} {
		calendar, err := New(c[0], []model.WindowSpan{{Cron: c[1], For: model.Duration(time.Hour)}})
		testenv.NoError(t, err)
		when, _ := time.Parse(time.RFC3339, c[2])
		if got := calendar.Next(when).UTC().Format(time.RFC3339); got != c[3] {
			t.Errorf("%s %s after %s: %s, want %s", c[0], c[1], c[2], got, c[3])
		}
	}
}

// TestWeeklySpansFollowTheWallClock compares weekly spans with a minute-by-minute walk along the wall clock. The zones
// have different clock changes.
func TestWeeklySpansFollowTheWallClock(t *testing.T) {
	for _, night := range [][2]string{
		{"Europe/Paris", "2026-03-29"}, {"Europe/Paris", "2026-10-25"}, {"America/New_York", "2026-03-08"}, {"America/New_York", "2026-11-01"},
		{"Australia/Lord_Howe", "2026-04-05"}, {"Australia/Lord_Howe", "2026-10-04"}, {"America/Santiago", "2026-04-05"}, {"America/Santiago", "2026-09-06"},
		{"Africa/Cairo", "2026-04-24"}, {"Africa/Cairo", "2026-10-30"}, {"Asia/Kolkata", "2026-06-01"}, {"UTC", "2026-06-01"},
	} {
		name, change := night[0], night[1]
		zone, err := time.LoadLocation(name)
		testenv.NoError(t, err)
		rapid.Check(t, func(t *rapid.T) {
			begin := rapid.IntRange(0, 95).Draw(t, "begin") * 15
			w := weeklySpan{start: begin, end: begin + 15*rapid.IntRange(1, 96).Draw(t, "length")}
			for i := range w.days {
				w.days[i] = rapid.Bool().Draw(t, "day")
			}
			day, _ := time.ParseInLocation("2006-01-02", change, zone)
			when := day.Add(time.Duration(rapid.IntRange(-30*60, 30*60).Draw(t, "minutes")) * time.Minute)
			_, got := (&Calendar{zone, []span{w}}).Active(when)
			if want := activeByWalk(w, when, zone); got != want {
				t.Fatalf("%s: %+v at %s: inside %v, the wall clock says %v", name, w, when, got, want)
			}
		})
	}
}

// activeByWalk reports whether a weekly span is active at t, by a slow search. It goes minute by minute; tests compare
// the results.
func activeByWalk(w weeklySpan, t time.Time, zone *time.Location) bool {
	for back := range 4 {
		d := dateOf(t.In(zone)).plusDays(1 - back)
		if !w.days[d.weekday()] {
			continue
		}
		midnight := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC)
		shown := func(u time.Time) time.Duration { // wall clock since midnight of the day
			l := u.In(zone)
			return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC).Sub(midnight)
		}
		var from, until time.Time
		for m := -16 * 60; m < 64*60; m += 15 {
			u := midnight.Add(time.Duration(m) * time.Minute)
			if from.IsZero() && shown(u) >= time.Duration(w.start)*time.Minute {
				from = u
			}
			if shown(u) < time.Duration(w.end)*time.Minute {
				until = u.Add(15 * time.Minute)
			}
		}
		if !t.Before(from) && t.Before(until) {
			return true
		}
	}
	return false
}

// TestNextStartOfAWindow expects Next to return the start of the calendar's next time span.
func TestNextStartOfAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"22:00-07:00", "sat,sun", "mon-fri 12:00-13:00", "02:30-02:45"}).Draw(t, "during")
		c, err := ParseDuring(text, "Europe/Berlin")
		testenv.NoError(t, err)
		when := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "when"), 0)
		next := c.Next(when)
		if _, inside := c.Active(next); !next.After(when) || !inside {
			t.Fatalf("%s: after %s the next is %s, inside %v", text, when, next, inside)
		}
		if next.Sub(when) > 8*24*time.Hour {
			t.Fatalf("%s: after %s the next is only %s", text, when, next)
		}
	})
}

// TestMalformedTimeSpans parses malformed time spans of calendars, and compares the errors with the expected errors.
func TestMalformedTimeSpans(t *testing.T) {
	for _, test := range []struct {
		span model.WindowSpan
		want string
	}{
		{model.WindowSpan{During: "22:00"}, `"22:00" has no end`},
		{model.WindowSpan{During: "25:00-26:00"}, `"25:00" is not a time of day: expected a time such as 07:30`},
		{model.WindowSpan{During: "7-9"}, `"7-9" is not a day: expected "mon", "tue"`},
		{model.WindowSpan{During: "moon 07:00-09:00"}, `"moon" is not a day: expected "mon", "tue"`},
		{model.WindowSpan{During: "mon tue"}, `"tue" is not a time`},
		{model.WindowSpan{During: "07:00-07:00"}, "for a whole day write 00:00-24:00"},
		{model.WindowSpan{During: "mon tue wed"}, "3 words, expected one or two"},
		{model.WindowSpan{Cron: "0 2 * *", For: model.Duration(time.Hour)}, "expected five fields"},
		{model.WindowSpan{Cron: "0 2 * * *"}, "the field for (the duration) must be"},
		{model.WindowSpan{From: "2026-12-24 18:00"}, `"" is not a date with a time`},
		{model.WindowSpan{From: "2026-12-24 18:00", To: "2026-12-24 17:00"}, "is empty: the end must be after the start"},
		{model.WindowSpan{}, "exactly one of"},
		{model.WindowSpan{During: "sat", Cron: "0 2 * * *"}, "exactly one of"},
	} {
		_, err := New("UTC", []model.WindowSpan{test.span})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want a word of %s", test.span, err, test.want)
		}
		if model.ClassOf(err) != model.Invalid {
			t.Errorf("%+v: class %v", test.span, model.ClassOf(err))
		}
	}
	if _, err := New("Mars/Olympus", nil); err == nil || !strings.Contains(err.Error(), "unknown time zone") {
		t.Errorf("an unknown zone: %v", err)
	}
}

// FuzzParseDuring parses random texts as weekly times, and expects an error or a consistent calendar.
func FuzzParseDuring(f *testing.F) {
	for _, text := range []string{"22:00-07:00 Europe/Paris", "sat,sun", "mon-fri 12:00-13:00 UTC", "-", "00:00-24:00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseDuring(text, "UTC")
		if err != nil {
			return
		}
		now := time.Unix(1_800_000_000, 0)
		if until, inside := c.Active(now); inside && !until.After(now) {
			t.Errorf("%q: inside until %s, which is over", text, until)
		}
	})
}
