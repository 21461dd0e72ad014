//go:build linux

package harness

import (
	"fmt"
	"testing"
)

// Figure notes what a test counted: bench/life.sh keeps these lines of a run with -v.
func Figure(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("figure: %s", fmt.Sprintf(format, args...))
}
