package when

import (
	"testing"
	"time"
)

// FuzzCron: an expression is refused, or has a next time after now (or none at all, as
// 30 February), found at once.
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
