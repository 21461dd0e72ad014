package api

import (
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
)

// Everybody who names a handler is counted.
func TestUsedBy(t *testing.T) {
	for want, l := range map[string]intent.Landing{
		"used by no check yet":                     {Nodes: 3},
		"used by 1 node":                           {Hear: 1},
		"used by 2 checks and 3 nodes":             {Checks: 2, Hear: 3},
		"used by 2 checks and 1 namespace":         {Checks: 2, Spaces: 1},
		"used by 1 check, 1 namespace and 2 nodes": {Checks: 1, Spaces: 1, Hear: 2},
	} {
		if got := usedBy(l); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}
