package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestUnitsOfPackagesAreValidAndConfined verifies the systemd units of the packages and limits their exposure. The
// exposure is 0 to 100; systemd-analyze prints a tenth of it. The agent's checks read the whole machine as root.
func TestUnitsOfPackagesAreValidAndConfined(t *testing.T) {
	analyze := testenv.Program(t, "systemd-analyze", "systemd")
	for name, exposure := range map[string]string{"muster.service": "17", "muster-agent.service": "60"} {
		unit, err := os.ReadFile(filepath.Join("../../deploy", name))
		testenv.NoError(t, err)
		file := filepath.Join(t.TempDir(), name)
		text := regexp.MustCompile(`ExecStart=\S+`).ReplaceAll(unit, []byte("ExecStart=/usr/bin/true")) // verify requires an existing program
		testenv.NoError(t, os.WriteFile(file, text, 0o600))
		if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || regexp.MustCompile(name).Match(out) {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold="+exposure, file).CombinedOutput(); err != nil {
			t.Errorf("%s is more exposed than %s: %v\n%s", name, exposure, err, out)
		}
	}
}
