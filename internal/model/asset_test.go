package model

import "testing"

// TestBuildMatchesVersions checks for which versions of a Linux distribution an archive is used.
func TestBuildMatchesVersions(t *testing.T) {
	for _, c := range []struct {
		want, version string
		matches       bool
	}{
		{"", "12", true}, {"9", "9", true}, {"9", "9.4", true}, {"9", "90", false}, {"9.4", "9", false},
		{">=8", "8", true}, {">=8", "10.2", true}, {">=8", "7.9", false}, {">=8", "", false}, {">=8", "sid", false},
		{"<10", "9.9", true}, {"<10", "10", false}, {">=8,<10", "9.4", true}, {">=8,<10", "10", false}, {">8", "9", false},
	} {
		b := AssetBuild{DistributionVersion: c.want}
		if got := b.Matches(map[string]string{"distributionVersion": c.version}); got != c.matches {
			t.Errorf("a build for %q matches version %q: %t, want %t", c.want, c.version, got, c.matches)
		}
	}
	for _, text := range []string{">8", "<", ">=08x", "<10,<12", ">=10,<8", ">=9,9", ">=-1", "<0", ">=99999999999"} {
		if r, err := ParseVersionRange(text); err == nil {
			t.Errorf("%q is the range %v", text, r)
		}
	}
}

// FuzzParseVersionRange parses random texts as version ranges, and expects no change after formatting and parsing.
// Only valid ranges count.
func FuzzParseVersionRange(f *testing.F) {
	for _, text := range []string{">=8", "<10", ">=8,<10", "9.4", ">8", "<<", ",<"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseVersionRange(text)
		if err != nil || r == nil {
			return
		}
		if again, err := ParseVersionRange(r.String()); err != nil || again == nil || *again != *r {
			t.Errorf("%q is %v, written and read again %v, %v", text, r, again, err)
		}
	})
}

// TestBuildMatchesProcessor expects armv7 to match version 7 of 32-bit ARM only, and arm to match any version.
func TestBuildMatchesProcessor(t *testing.T) {
	for _, c := range []struct {
		build, arch, armVersion string
		matches                 bool
	}{
		{"", "arm", "7", true}, {"arm", "arm", "7", true}, {"arm", "arm", "", true}, {"armv7", "arm", "7", true}, {"armv7", "arm", "6", false},
		{"armv7", "arm", "", false}, {"armv7", "arm64", "", false}, {"armv", "arm", "", false}, {"amd64", "amd64", "", true},
	} {
		facts := map[string]string{"arch": c.arch}
		if c.armVersion != "" {
			facts["armVersion"] = c.armVersion
		}
		b := AssetBuild{Arch: c.build}
		if got := b.Matches(facts); got != c.matches {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
