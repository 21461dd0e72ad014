package testenv

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
)

var update = flag.Bool("update", false, "write golden files and reference pages anew")

// Golden compares got with a file; go test -update writes the file. before are commands that must run before -update.
func Golden[T string | []byte](t testing.TB, path string, got T, before ...string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil || string(kept) != string(got) {
		do := strings.Join(append(before, "go test -update in this package writes it (make docs: all pages)"), "; then ")
		t.Errorf("%s is not what was made (%v). If that is meant: %s\n%s", path, err, do, udiff.Unified("kept", "made", string(kept), string(got)))
	}
}

// Updating says whether golden files are written anew.
func Updating() bool { return *update }
