//go:build linux

package test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// A small file system fills: the probe disk turns critical, a problem opens, and both
// end when there is room again.
func TestDiskProbeOnFullDisk(t *testing.T) {
	testenv.Root(t)
	t.Parallel()
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=4m"); err != nil {
		testenv.LeftOut(t, "tmpfs cannot be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s := harness.StartServer(t)
	api := s.Client()
	a := s.NewAgent("filling")
	s.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: room}\nspec:\n  targets: {nodes: [filling]}\n  interval: 1s\n" +
		"  probe: {name: disk, args: {path: " + mount + ", warn: 20%, crit: 10%}}\n")
	a.Start()
	becomes := func(status model.Status, problem bool) {
		t.Helper()
		harness.Until(t, 40*time.Second, "the event is "+status.String(), func() (string, bool) {
			e := eventOf(t, api, "filling", "room")
			return e.Output, e.Results > 0 && e.Status == status && (e.Problem != nil) == problem
		})
	}
	becomes(model.OK, false)
	filler := filepath.Join(mount, "filler")
	if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 3900<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	becomes(model.Critical, true)
	// What is wrong stands first.
	if first := strings.Split(s.CLI("get", "events"), "\n")[1]; !strings.HasPrefix(first, "CRITICAL") || !strings.Contains(first, "room") || !strings.Contains(first, mount) {
		t.Errorf("get events begins with %q", first)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	becomes(model.OK, false)
}
