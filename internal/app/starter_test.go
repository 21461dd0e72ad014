package app

import (
	"bytes"
	"os"
	"testing"
)

// What muster up begins with is what the pages let people begin a server with.
func TestStarterSetEqualsExample(t *testing.T) {
	const example = "../../docs/examples/starter.yaml"
	got, err := os.ReadFile(example)
	if err != nil || !bytes.Equal(got, starter) {
		t.Errorf("%s is not internal/app/starter.yaml (%v): copy one over the other", example, err)
	}
}
