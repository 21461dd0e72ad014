package nodes

import (
	"slices"
	"testing"
)

func TestVersionsInOrder(t *testing.T) {
	want := []string{"0.9.1", "0.9.10", "v0.10.0", "0.10.0-12-gabc", "1.0", "1.0.1", "1.02.0", "2", "dev", "load", ""}
	got := slices.Clone(want)
	slices.Reverse(got)
	if slices.SortFunc(got, compareVersions); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		version, wanted string
		is              bool
	}{{"1.2.3", "1.2", true}, {"v1.2.3", "1.2.3", true}, {"1.20.3", "1.2", false}, {"1.2", "1.2.3", false}, {"dev", "dev", true}} {
		if got := isOfVersion(c.version, c.wanted); got != c.is {
			t.Errorf("%s of %s: %v", c.version, c.wanted, got)
		}
	}
}
