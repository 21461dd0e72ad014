//go:build linux

package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// OnMachine lets the agent run, from its next start on, where /etc/machine-id and the
// kernel's boot id are these: in a mount namespace of its own. The test is left out where
// such namespaces are not to be had.
func (a *Agent) OnMachine(machine, boot string) {
	a.t.Helper()
	enter := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		enter = []string{"unshare", "--map-root-user", "--mount"}
	}
	a.Wrap = append(enter, machineCommand(a.t, machine, boot)...)
	probe := append(append([]string{}, a.Wrap...), "true")
	if out, err := exec.Command(probe[0], probe[1:]...).CombinedOutput(); err != nil {
		testenv.LeftOut(a.t, "no mount namespace is to be had: "+strings.TrimSpace(string(out)), "sudo scripts/nightly.sh blackbox")
	}
}

// machineCommand are the beginning of a command that runs with these ids; it must stand in
// a mount namespace already.
func machineCommand(t testing.TB, machine, boot string) []string {
	t.Helper()
	return []string{"sh", "-c", `mount --bind "$1/machine-id" /etc/machine-id && mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id && shift && exec "$@"`,
		"sh", machineFiles(t, machine, boot)}
}

// machineFiles is a folder with the files to mount.
func machineFiles(t testing.TB, machine, boot string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"machine-id": machine, "boot_id": boot} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
