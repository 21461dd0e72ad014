package model

import "testing"

// TestCountNounFormsPlurals counts nouns that end with y, ey and another letter, and expects their plurals.
func TestCountNounFormsPlurals(t *testing.T) {
	for noun, want := range map[string]string{"key": "5 keys", "policy": "5 policies", "node": "5 nodes"} {
		if got := CountNoun(5, noun); got != want || CountNoun(1, noun) != "1 "+noun {
			t.Errorf("%s: %s", noun, got)
		}
	}
}
