package inventory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// randomVersion returns a random version for comparisons with dpkg and rpm. It has a few parts, so that many versions
// begin equally.
func randomVersion(r *rand.Rand) string {
	part := func(words ...string) string {
		var b strings.Builder
		b.WriteString([]string{"0", "1", "01", "2", "10", "1.0"}[r.IntN(6)])
		for range r.IntN(5) {
			b.WriteString(words[r.IntN(len(words))])
		}
		return b.String()
	}
	v := part("0", "1", "9", "00", ".", ".", "+", "~", "~", "a", "rc", "Z", "b1", ".1", "10")
	if r.IntN(3) == 0 {
		v = []string{"0:", "1:", "2:", "10:"}[r.IntN(4)] + v
	}
	if r.IntN(2) == 0 {
		v += "-" + part("0", "1", ".", "~", "+", "ubuntu", "deb12u", "a")
	}
	return v
}

// TestDebVersionsCompareAsDpkgDoes compares random Debian versions, and expects the same order as from the program
// dpkg.
func TestDebVersionsCompareAsDpkgDoes(t *testing.T) {
	testenv.Program(t, "dpkg", "dpkg")
	r := rand.New(rand.NewPCG(1, 2))
	var script strings.Builder
	var pairs [][2]string
	for range pairCount() {
		p := [2]string{randomVersion(r), randomVersion(r)}
		if r.IntN(4) == 0 {
			p[1] = p[0] + []string{"", "~", "+b1", ".0", "0"}[r.IntN(5)]
		}
		pairs = append(pairs, p)
		fmt.Fprintf(&script, "if dpkg --compare-versions '%[1]s' lt '%[2]s'; then echo -1; elif dpkg --compare-versions '%[1]s' eq '%[2]s'; then echo 0; else echo 1; fi\n", p[0], p[1])
	}
	compareWith(t, Deb, pairs, exec.Command("sh"), script.String())
}

// TestRPMVersionsCompareAsRPMDoes compares random versions, and expects the same order as from the program rpm.
func TestRPMVersionsCompareAsRPMDoes(t *testing.T) {
	testenv.Program(t, "rpm", "rpm")
	r := rand.New(rand.NewPCG(3, 4))
	var pairs [][2]string
	for range pairCount() {
		p := [2]string{randomVersion(r), randomVersion(r)}
		for i := range p {
			p[i] = strings.ReplaceAll(p[i], "Z", "^")
		}
		if r.IntN(4) == 0 {
			p[1] = p[0] + []string{"", "~", "^1", ".0", "0", "_a"}[r.IntN(6)]
		}
		pairs = append(pairs, p)
	}
	for part := range slices.Chunk(pairs, 1000) { // as an argument may be 128 KiB long
		var script strings.Builder
		for _, p := range part {
			fmt.Fprintf(&script, "%%{lua: print(rpm.vercmp('%s', '%s'))}\n", p[0], p[1])
		}
		compareWith(t, RPM, part, exec.Command("rpm", "--eval", script.String()), "")
	}
}

// pairCount returns the number of random version pairs for a test.
func pairCount() int {
	if testing.Short() {
		return 300
	}
	return 5000
}

// compareWith compares random pairs of versions by CompareVersions and by a package manager's own program.
func compareWith(t *testing.T, manager string, pairs [][2]string, c *exec.Cmd, input string) {
	t.Helper()
	c.Stdin = strings.NewReader(input)
	c.Stderr = new(bytes.Buffer)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, c.Stderr)
	}
	orders := strings.Fields(string(out))
	if len(orders) != len(pairs) {
		t.Fatalf("%d answers to %d pairs: %s", len(orders), len(pairs), c.Stderr)
	}
	for i, p := range pairs {
		if got, _ := CompareVersions(manager, p[0], p[1]); fmt.Sprint(got) != orders[i] {
			t.Errorf("%s: %q is %d to %q, want %s", manager, p[0], got, p[1], orders[i])
		}
		if back, _ := CompareVersions(manager, p[1], p[0]); fmt.Sprint(-back) != orders[i] {
			t.Errorf("%s: %q is %d to %q, want the opposite of %s", manager, p[1], back, p[0], orders[i])
		}
	}
}

// TestAPKVersions compares neighbours in a sorted list of apk versions, and expects CompareVersions to confirm
// the order.
func TestAPKVersions(t *testing.T) {
	for _, line := range []string{
		"1.0_alpha 1.0_alpha1 1.0_alpha2 1.0_beta 1.0_pre1 1.0_rc1 1.0_rc1-r1 1.0 1.0-r1 1.0-r10 1.0_git20200101 1.0_p1 1.0_p1-r2 1.0a 1.0b 1.0b-r1 1.0.0 1.0.1 1.1 1.10 2 10",
		"0.9.8 1.05 1.050 1.5 1.50", "1.2.3 1.2.3_p1 1.2.4_rc1 1.2.4", "3.0.8-r0 3.0.8-r1 3.0.10-r0",
	} {
		list := strings.Fields(line)
		for i := range list {
			for k := range list {
				want := min(max(i-k, -1), 1)
				if got, _ := CompareVersions(APK, list[i], list[k]); got != want {
					t.Errorf("%s is %d to %s, want %d", list[i], got, list[k], want)
				}
			}
		}
	}
	if _, ok := CompareVersions("pacman", "1", "2"); ok {
		t.Error("a manager without rules has an order")
	}
}

// FuzzCompareVersions compares random versions in both directions, and expects opposite results. A version must equal
// itself.
func FuzzCompareVersions(f *testing.F) {
	f.Add("1:2.0~rc1-3", "1.0_alpha-r1")
	f.Add("1.0^git", "~")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, manager := range []string{Deb, RPM, APK} {
			x, _ := CompareVersions(manager, a, b)
			y, _ := CompareVersions(manager, b, a)
			self, _ := CompareVersions(manager, a, a)
			if x != -y || self != 0 {
				t.Fatalf("%s: %q to %q is %d, back %d; to itself %d", manager, a, b, x, y, self)
			}
		}
	})
}
