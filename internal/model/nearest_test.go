package model

import "testing"

// Two letters that changed places are one slip.
func TestNearest(t *testing.T) {
	for _, c := range []struct {
		word, want string
		of         []string
	}{
		{"wramup", "warmup", []string{"ramp", "rate", "warmup"}},
		{"stedy", "steady", []string{"step", "steady", "soak"}},
		{"dikss", "disks", []string{"disk", "disks", "dusk"}},
		{"ab", "ba", []string{"abcd", "ba"}},
		{"xyz", "", []string{"steady", "drain"}},
		{"disk", "disk", []string{"disks", "disk"}},
	} {
		if got := Nearest(c.word, c.of); got != c.want {
			t.Errorf("%s: %q, want %q", c.word, got, c.want)
		}
	}
}
