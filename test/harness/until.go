//go:build linux

package harness

import (
	"testing"
	"time"
)

// Until checks a condition every 20 ms and fails the test if it is not true in time. ok returns its last observation for the
// message.
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
