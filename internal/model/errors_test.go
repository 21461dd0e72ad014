package model

import "testing"

// A client finds the class by the status, a script by the exit code: each has its own.
func TestEveryClassHasItsOwnStatusAndExitCode(t *testing.T) {
	status, exit := map[int]bool{}, map[int]bool{}
	for i := range classes {
		c := Class(i)
		if status[c.HTTP()] || exit[c.Exit()] || c.Label() == "" {
			t.Errorf("class %d: status %d, exit code %d, label %q", c, c.HTTP(), c.Exit(), c.Label())
		}
		status[c.HTTP()], exit[c.Exit()] = true, true
		if got := ClassOfHTTP(c.HTTP()); got != c {
			t.Errorf("status %d is of class %d, want %d", c.HTTP(), got, c)
		}
	}
	for code, want := range map[int]Class{400: Invalid, 415: Invalid, 502: Internal} {
		if got := ClassOfHTTP(code); got != want {
			t.Errorf("status %d is of class %d, want %d", code, got, want)
		}
	}
}
