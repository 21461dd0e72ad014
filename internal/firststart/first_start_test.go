package firststart

import (
	"bytes"
	"os"
	"testing"
)

// TestDefaultChecksEqualExample expects the default checks of muster up to equal the example in the documentation
func TestDefaultChecksEqualExample(t *testing.T) {
	const example = "../../docs/examples/starter.yaml"
	got, err := os.ReadFile(example)
	if err != nil || !bytes.Equal(got, starter) {
		t.Errorf("%s is not internal/firststart/starter.yaml (%v): copy one over the other", example, err)
	}
}
