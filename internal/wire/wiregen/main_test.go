package main

import (
	"bytes"
	"os"
	"testing"
)

// The generated codec in the repository equals the generator's output for the present .proto files.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Chdir("..")
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(output); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is not what docs/protocol/muster.proto says (%v): run go generate in internal/wire", output, err)
	}
}
