//go:build linux

package harness

import (
	"os"
	"time"
)

// longEnv lets outages last as long as they do on a bad day.
const longEnv = "MUSTER_TEST_LONG"

// Lasts is how long an outage lasts: short, in the ordinary run of the tests; long where
// MUSTER_TEST_LONG is set.
func Lasts(short, long time.Duration) time.Duration {
	if os.Getenv(longEnv) != "" {
		return long
	}
	return short
}
