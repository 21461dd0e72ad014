package play

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// TestParseKept parses lines of event states, valid and malformed.
func TestParseKept(t *testing.T) {
	for text, want := range map[string]observe.EventState{
		"7 8 9 18446744073709551615 11 5 1 0":          {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11, Digest: 5, Expired: true},
		"7 8 9 18446744073709551615 11 5 0 4294967295": {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11, Digest: 5, Order: 1<<32 - 1},
	} {
		if k, ok := parseState(text); !ok || k != want {
			t.Errorf("%s: %+v %t", text, k, ok)
		}
	}
	for _, text := range []string{"", "end", "1 2 3 4", "1 2 3 4 5 6 7", "1 2 3 4 5 6 7 8 9", "1 2 3 4 x", "1 2 3 4 -5"} {
		if k, ok := parseState(text); ok {
			t.Errorf("%q became %+v", text, k)
		}
	}
}

// FuzzState parses random lines, and expects that only lines of eight numbers are event states.
func FuzzState(f *testing.F) {
	f.Add("1 2 3 4 5 6 0 7")
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := parseState(text); ok && strings.Count(text, " ") != 7 {
			t.Errorf("%q", text)
		}
	})
}
