//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// The server is gone for longer than results count as live. Its agents spool and
// deliver all, one of them after a kill of its own. What comes late, in the lane
// backlog, is history: it does not change what is now. Nobody living is reported.
func TestServerOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "4s", "--reconnect-grace", "60s")
	api := s.Client()
	stays, restarts := s.NewAgent("stays"), s.NewAgent("restarts")
	count, flips := s.Counter("count", "stays"), s.Counter("flips", "restarts")
	stays.Start()
	restarts.Start()
	count.AwaitRuns(1)
	flips.AwaitRuns(1)
	awaitAllResults(t, api, "stays", "count", count)
	awaitAllResults(t, api, "restarts", "flips", flips)

	s.Kill()
	sleep(t.Context(), harness.Duration(t, 10*time.Second, time.Minute)) // 10 s after a session results are still live
	flips.Exit(int(model.Critical))
	flips.AwaitRuns(3) // backlog
	flips.Exit(int(model.OK))
	flips.AwaitRuns(1)
	flips.Block()
	sleep(t.Context(), 2*time.Second) // what the spool lingers before it writes, and more
	restarts.Kill()
	flips.Unblock()
	restarts.Start()
	flips.AwaitRuns(2) // live again, and newer: they go first
	s.Start()
	awaitAllResults(t, api, "stays", "count", count)
	awaitAllResults(t, api, "restarts", "flips", flips)

	text := ""
	harness.Until(t, 20*time.Second, "history has the late results", func() (string, bool) {
		text = s.CLI("describe", "event", "restarts/flips")
		return text, strings.Contains(text, "late result of") && strings.Contains(text, "CRITICAL")
	})
	if late := s.Metric("muster_event_signals_total", `outcome="late"`); late < 3 {
		t.Errorf("%g results were late", late)
	}
	for _, e := range [][2]string{{"stays", "count"}, {"restarts", "flips"}, {"stays", model.KeepaliveCheckName}, {"restarts", model.KeepaliveCheckName}} {
		if got := statusChanges(t, api, e[0], e[1]); len(got) != 0 {
			t.Errorf("%s/%s was judged anew: %+v", e[0], e[1], got)
		}
		if now := eventOf(t, api, e[0], e[1]); now.Status != model.OK || now.Lost != 0 {
			t.Errorf("%s/%s is %+v", e[0], e[1], now)
		}
	}
	if got := append(problemsOf(t, api, "stays"), problemsOf(t, api, "restarts")...); len(got) != 0 {
		t.Errorf("problems: %s", fmt.Sprint(got))
	}
}
