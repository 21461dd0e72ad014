package loadcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestSizeWithoutAServer expects an error instead of a size of 0 if the server does not start, and no files left.
func TestSizeWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	program, out := filepath.Join(dir, "broken"), filepath.Join(dir, "out")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no such flag >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := loadCommand(t, "", "size", "muster-sizing", "--factors", "0.01,0.02", "--seconds", "1", "--server-binary", program, "--out", out)
	if model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "no such flag") || strings.Contains(text, "does not carry") {
		t.Errorf("%v\n%s", err, text)
	}
	if left, err := os.ReadDir(out); err == nil {
		t.Errorf("left behind: %v", left)
	}
}
