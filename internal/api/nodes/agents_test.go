package nodes

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
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

// FuzzAgentPlace: the place of a page token is refused, or encoded again the same.
func FuzzAgentPlace(f *testing.F) {
	for _, text := range []string{"4 default/web01 1.2.3", "0 a ", "", "x y z", "1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseAgentPlace(text)
		if err != nil {
			if model.ClassOf(err) != model.Invalid {
				t.Errorf("%q is refused as %v", text, err)
			}
			return
		}
		if again, err := parseAgentPlace(p.String()); err != nil || again != p {
			t.Errorf("%q is %+v, encoded again %+v, %v", text, p, again, err)
		}
	})
}
