package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestFullDiskKeepsTheOldFile repairs a file on a full disk, and expects an error and the unchanged file. The other
// components must run.
func TestFullDiskKeepsTheOldFile(t *testing.T) {
	n := newTestNode(t)
	testenv.NoError(t, os.MkdirAll(n.path("small"), 0o755))
	if err := syscall.Mount("tmpfs", n.path("small"), "tmpfs", 0, "size=16k"); err != nil {
		testenv.Skip(t, "no small file system: "+err.Error(), "run the tests as root")
	}
	defer func() { testenv.NoError(t, syscall.Unmount(n.path("small"), 0)) }()
	n.write("small/f", "old\n")
	content := strings.Repeat("new line\n", 4000)
	methods := fmt.Sprintf(`{"component": "large", "fileContent": {"path": "$N/small/f", "content": %q}}, {"component": "other", "fileContent": {"path": "$N/other", "content": "x"}}`, content)
	status, messages := n.run(true, methods)
	if status != "error, repaired" || !strings.Contains(messages, "no space left on device") {
		t.Errorf("%s: %s", status, messages)
	}
	if left, _ := filepath.Glob(n.path("small/.muster-*")); n.read("small/f") != "old\n" || len(left) > 0 {
		t.Errorf("content %q, left %v", n.read("small/f"), left)
	}
}
