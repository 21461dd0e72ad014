//go:build linux

package harness

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Until polls a condition every 20 ms, and fails the test after a timeout. The condition has to become true in
// time. ok returns its last observation for the message.
func Until(t testing.TB, within time.Duration, what string, ok func() (saw string, done bool)) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		saw, done := ok()
		if done {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s; last seen: %s", within, what, saw)
		case <-look.C:
		}
	}
}

// longOutagesEnv is the environment variable for long outages, as in production, in place of short ones.
const longOutagesEnv = "MUSTER_TEST_LONG"

// OutageDuration returns how long a simulated outage lasts, depending on MUSTER_TEST_LONG. It is long if
// MUSTER_TEST_LONG is set.
func OutageDuration(t testing.TB, short, long time.Duration) time.Duration {
	t.Helper()
	if os.Getenv(longOutagesEnv) != "" {
		return long
	}
	if long > short {
		testenv.Shortened(t, fmt.Sprintf("the outage lasts %s, not %s", short, long), longOutagesEnv+"=1 go test ./test -timeout 30m")
	}
	return short
}

// LogMeasurement logs a measured number, in the form that scripts/measure.sh collects.
func LogMeasurement(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("figure: %s", fmt.Sprintf(format, args...))
}
