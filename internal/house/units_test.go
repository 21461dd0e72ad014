package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestServerUnitIsValidAndConfined verifies the server's systemd unit and bounds its exposure. The agent writes its own
// unit, and tests it.
func TestServerUnitIsValidAndConfined(t *testing.T) {
	analyze := testenv.Program(t, "systemd-analyze", "systemd")
	unit, err := os.ReadFile("../../deploy/muster.service")
	testenv.NoError(t, err)
	file := filepath.Join(t.TempDir(), "muster.service")
	text := strings.ReplaceAll(string(unit), "/usr/local/bin/muster", "/usr/bin/true") // verify requires an existing program
	testenv.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "muster.service") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=25", file).CombinedOutput(); err != nil {
		t.Errorf("the unit is more exposed than 25: %v\n%s", err, out)
	}
}
