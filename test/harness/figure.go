//go:build linux

package harness

import (
	"fmt"
	"testing"
)

// LogFigure logs a figure of a test: bench/life.sh keeps these lines of a run with -v.
func LogFigure(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("figure: %s", fmt.Sprintf(format, args...))
}
