package main

import (
	"bytes"
	"os"
	"testing"
)

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
