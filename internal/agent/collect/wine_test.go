package collect

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestKeysUnderWine runs the tests of Windows with Wine. TestWindowsItems measures the keys; tests of logs, pages, pings and
// commands run, too.
func TestKeysUnderWine(t *testing.T) {
	if testing.Short() {
		testenv.Skip(t, "builds for another system", "go test ./internal/agent/collect -run UnderWine")
	}
	program, env := testenv.Wine(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-exec", program, "-count=1", "-v", "-run", "TestWindows|TestLog|TestInvalidLog|TestWeb|TestPings|TestCommandItem", ".")
	cmd.Env = append(env, "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWindowsItems") {
		t.Errorf("go test for Windows: %v", err)
	}
}
