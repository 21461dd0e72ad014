//go:build linux

package harness

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// longEnv lets outages last as long as they do on a bad day.
const longEnv = "MUSTER_TEST_LONG"

// Duration is how long an outage lasts: short, in the ordinary run of the tests, which is
// noted; long where MUSTER_TEST_LONG is set.
func Duration(t testing.TB, short, long time.Duration) time.Duration {
	t.Helper()
	if os.Getenv(longEnv) != "" {
		return long
	}
	if long > short {
		testenv.Shortened(t, fmt.Sprintf("the outage lasts %s, not %s", short, long), longEnv+"=1 go test ./test -timeout 30m")
	}
	return short
}
