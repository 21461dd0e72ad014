package item

import (
	"errors"
	"strings"
	"testing"
)

// TestPatternsAreBounded compiles short patterns with many instructions, and expects an error.
func TestPatternsAreBounded(t *testing.T) {
	for pattern, want := range map[string]error{"a+": nil, strings.Repeat("x{1000}", 9): nil, strings.Repeat("x{1000}", 11): ErrPatternSize} {
		re, steps, err := CompilePattern(pattern)
		if !errors.Is(err, want) || (re == nil) != (want != nil) || steps == 0 {
			t.Errorf("%s: %d steps, %v", pattern, steps, err)
		}
	}
	if _, _, err := CompilePattern("("); err == nil || errors.Is(err, ErrPatternSize) {
		t.Errorf("error %v", err)
	}
}
