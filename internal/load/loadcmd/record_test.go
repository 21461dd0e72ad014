package loadcmd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// TestRecordLooksOnceMore ends a recording, and expects the results that came since the last look.
func TestRecordLooksOnceMore(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	more := listen(ctx, time.Now().Add(time.Hour))
	if first, second := more(), more(); !first || second {
		t.Errorf("after the end: %t, then %t", first, second)
	}
	if listen(t.Context(), time.Now().Add(-time.Hour))() {
		t.Error("it listens beyond the time")
	}
}

// TestRecordTimes parses times with and without a zone, and as durations before now.
func TestRecordTimes(t *testing.T) {
	here := time.FixedZone("here", 2*3600)
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, here)
	at := func(hour, minute int) time.Time { return time.Date(2026, 11, 23, hour, minute, 0, 0, here) }
	for _, c := range []struct {
		name         string
		r            recording
		since, until time.Time
		says         string
	}{
		{name: "all"},
		{name: "ago", r: recording{since: "90m"}, since: at(10, 30)},
		{name: "a day ago", r: recording{since: "1d"}, since: at(12, 0).AddDate(0, 0, -1)},
		{name: "from now on", r: recording{length: time.Hour}, since: now, until: at(13, 0)},
		{name: "from then on", r: recording{since: "2026-11-23 08:00", length: time.Hour}, since: at(8, 0), until: at(9, 0)},
		{name: "elsewhere", r: recording{since: "2026-11-23T08:00:00Z", length: 30 * time.Minute}, since: at(10, 0), until: at(10, 30)},
		{name: "noon", r: recording{since: "noon"}, says: `--since "noon" is no time`},
		{name: "backwards", r: recording{length: -time.Hour}, says: "want a length"},
	} {
		o, err := c.r.options(now)
		if c.says != "" {
			if model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.name, err, c.says)
			}
		} else if err != nil || !o.Since.Equal(c.since) || !o.Until.Equal(c.until) {
			t.Errorf("%s: %v, from %s to %s", c.name, err, o.Since, o.Until)
		}
	}
}
