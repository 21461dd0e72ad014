package when

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestNextCronTick computes the next times that cron expressions match, and expects the times in a table. Some
// cases are in an hour that daylight saving skips or repeats.
func TestNextCronTick(t *testing.T) {
	paris, err := ParseCron("30 2 * * *", "Europe/Paris")
	testenv.NoError(t, err)
	for _, c := range []struct{ expr, from, want string }{
		{"30 2 * * *", "2026-03-27T12:00:00+01:00", "2026-03-28T02:30:00+01:00"},
		{"30 2 * * *", "2026-03-28T12:00:00+01:00", "2026-03-30T02:30:00+02:00"}, // 02:30 does not exist on the 29th
		{"0 3 * * *", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00"},  // right after the skipped hour
		{"*/30 * * * *", "2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		// On 25 October the clock is set back from three o'clock to two.
		{"30 2 * * *", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"30 2 * * *", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"30 2 * * *", "2026-10-25T02:10:00+01:00", "2026-10-26T02:30:00+01:00"},
		{"30 1-3 * * *", "2026-10-25T02:30:00+02:00", "2026-10-25T03:30:00+01:00"},
		{"*/30 * * * *", "2026-10-25T01:30:00+02:00", "2026-10-25T02:00:00+02:00"},
		{"*/30 * * * *", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"*/30 * * * *", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"},
		{"0 12 29 2 *", "2026-10-25T02:30:00+01:00", "2028-02-29T12:00:00+01:00"},
		{"*/15 * * * *", "2026-11-21T08:07:30+01:00", "2026-11-21T08:15:00+01:00"},
		{"15 3 * * 5L", "2026-11-27T03:15:00+01:00", "2026-12-25T03:15:00+01:00"},  // the last Friday of a month
		{"15 3 * * 0#2", "2026-12-01T00:00:00+01:00", "2026-12-13T03:15:00+01:00"}, // the second Sunday
		{"0 9 * * 1-5", "2026-11-21T08:00:00+01:00", "2026-11-23T09:00:00+01:00"},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		got, err := NextCron(c.expr, paris, from)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s after %s: %s (%v), want %s", c.expr, c.from, got.Format(time.RFC3339), err, c.want)
		}
	}
	for _, bad := range []string{"", "* * * *", "61 * * * *", "a b c d e", "* * * * * *"} {
		if _, err := ParseCron(bad, ""); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
	if _, err := ParseCron("* * * * *", "Mars/Olympus"); err == nil {
		t.Error("zone accepted")
	}
}

// FuzzCron parses random cron expressions, and expects an error or a quickly found next time.
func FuzzCron(f *testing.F) {
	for _, c := range [][2]string{
		{"*/5 8-18 * * 1-5", ""}, {"0 0 30 2 *", "UTC"}, {"@daily", "Europe/Berlin"}, {"@every 5m", ""}, {"30 2 29 2 *", "America/New_York"},
		{"0 0 L * *", ""}, {"0 0 15W * 5#2", ""}, {"* * * *", ""}, {"60 * * * *", ""}, {"*/0 * * * *", ""}, {"5-1 * * * *", "Nowhere/None"}, {"@", "../etc/passwd"},
	} {
		f.Add(c[0], c[1], int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, unix int64) {
		location, err := ParseCron(expr, zone)
		if err != nil {
			return
		}
		now := time.Unix(unix%(4102444800), 0) // up to the year 2100
		began := time.Now()
		next, err := NextCron(expr, location, now)
		if err == nil && !next.After(now) {
			t.Errorf("%q in %s: the next time after %s is %s", expr, location, now, next)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %v to find the next time", expr, took)
		}
	})
}

// TestLastCronPrecedesNow compares LastCron with NextCron over a year with two changes of daylight saving.
func TestLastCronPrecedesNow(t *testing.T) {
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{"0 12 * * *", "30 4 * * 6", "*/5 * * * *", "15 18 1 * *", "15 3 * * 5L", "15 3 * * 0#2"} {
		for day := range 365 {
			now := time.Date(2026, 1, 1, 7, 3, 0, 0, paris).AddDate(0, 0, day)
			last := LastCron(expr, paris, now)
			next, err := NextCron(expr, paris, last.Add(-time.Second))
			if err != nil || !next.Equal(last) || !last.Before(now) {
				t.Errorf("%s: last time before %s is %s, but the next after it %s, %v", expr, now, last, next, err)
			}
			if after, err := NextCron(expr, paris, last); err != nil || after.Before(now) {
				t.Errorf("%s: %s is not the last time before %s: %s, %v", expr, last, now, after, err)
			}
		}
	}
	if got := LastCron("0 0 30 2 *", paris, time.Date(2026, 1, 1, 0, 0, 0, 0, paris)); !got.IsZero() {
		t.Errorf("30 February was %s", got)
	}
}
