package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// The server's unit is one that systemd takes, and as closed as it was. (That of the agent
// is made by the agent, and tested there.)
func TestServerUnit(t *testing.T) {
	analyze := testenv.Program(t, "systemd-analyze", "systemd")
	unit, err := os.ReadFile("../../deploy/muster.service")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "muster.service")
	text := strings.ReplaceAll(string(unit), "/usr/local/bin/muster", "/usr/bin/true") // is it there?
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "muster.service") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=25", file).CombinedOutput(); err != nil {
		t.Errorf("more exposed than it was: %v\n%s", err, out)
	}
}
