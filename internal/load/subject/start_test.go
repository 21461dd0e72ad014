package subject

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestProgram starts a program given by a relative path, and expects that it is found from the present folder.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("muster", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": self, "./muster": filepath.Join(dir, "muster"), self: self} {
		if got, err := program(name); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := program("./no-such"); model.ClassOf(err) != model.NotFound {
		t.Error(err)
	}
}
