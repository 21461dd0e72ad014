package model

import "testing"

// FuzzParseShare reads shares from random texts, and expects values from 0 to 1. Only a text in percent is a share.
func FuzzParseShare(f *testing.F) {
	for _, text := range []string{"10%", "0.5%", "100%", "101%", "NaN%", "canary", "1e-3%", "%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		share, ok := ParseShare(text)
		if ok != (share >= 0 && share <= 1 && text != "" && text[len(text)-1] == '%') && !(share == 0 && !ok) {
			t.Errorf("%q: %v, %v", text, share, ok)
		}
	})
}
