package when

import (
	"testing"
	"time"
)

func TestCron(t *testing.T) {
	paris, err := ParseCron("30 2 * * *", "Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ expr, from, want string }{
		{"30 2 * * *", "2026-03-27T12:00:00+01:00", "2026-03-28T02:30:00+01:00"},
		{"30 2 * * *", "2026-03-28T12:00:00+01:00", "2026-03-30T02:30:00+02:00"}, // 02:30 does not exist on the 29th
		{"*/15 * * * *", "2026-11-21T08:07:30+01:00", "2026-11-21T08:15:00+01:00"},
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
