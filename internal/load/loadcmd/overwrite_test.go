package loadcmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestNothingIsWrittenOver expects an error instead of replacing an existing file, unless --yes is set or the target is
// no regular file.
func TestNothingIsWrittenOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"from-fleet"}, {"record", "--data", t.TempDir()}} {
		if _, err := loadCommand(t, "", append(command, "-o", file)...); model.ClassOf(err) != model.Guarded {
			t.Errorf("%s: %v", command[0], err)
		}
	}
	if _, err := loadCommand(t, "", "record", "--data", t.TempDir()); model.ClassOf(err) != model.Invalid {
		t.Errorf("record without a file: %v", err)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "mine" {
		t.Errorf("%q, %v", kept, err)
	}
	var over overwrite
	for path, want := range map[string]bool{file: false, file + "2": true, os.DevNull: true, t.TempDir(): true} {
		if err := over.mayWrite(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	over.yes = true
	if err := over.mayWrite(file); err != nil {
		t.Error(err)
	}
}
