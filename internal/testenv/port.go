package testenv

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Port is a loopback address that is the test's own until it ends, also while nobody listens at it: below the range
// from which the kernel takes ports by itself, and held from all other callers, in this process and in others.
func Port(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.N(20_000)
		if release, err := reservePort(port); err == nil {
			t.Cleanup(release)
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatal("no free port found")
	return ""
}
