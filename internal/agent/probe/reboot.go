package probe

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

func rebootProbe() Probe {
	return Probe{
		Name: "reboot", Summary: "Whether the machine waits for a reboot: the distribution's flag file, or a kernel newer than the running one.",
		Args: []Arg{{Name: "status", Type: Text, Default: "warning", Help: "status while a reboot is pending: ok, warning or critical"}},
		run:  runReboot,
	}
}

func runReboot(_ context.Context, env *Env, a args, r *report) {
	pending, ok := model.ParseStatus(a.text("status"))
	if !ok {
		r.add(model.Unknown, "status %q: want ok, warning or critical", a.text("status"))
		return
	}
	release, err := kernelRelease()
	if err != nil {
		addUnsupported(r, runtime.GOOS, err)
		return
	}
	judgeReboot(env, r, pending, release)
}

func judgeReboot(env *Env, r *report, pending model.Status, running string) {
	for _, flag := range []string{"/run/reboot-required", "/var/run/reboot-required"} {
		if _, err := os.Stat(env.path(flag)); err != nil {
			continue
		}
		packages, _ := env.read(flag + ".pkgs")
		text := "a reboot is required"
		if f := strings.Fields(string(packages)); len(f) > 0 {
			text += " by " + strings.Join(f[:min(len(f), 5)], ", ")
		}
		r.add(pending, "%s", text)
		break
	}
	newest, known := running, false
	kernels, _ := filepath.Glob(env.path("/boot/vmlinuz-*"))
	for _, k := range kernels {
		release := strings.TrimPrefix(filepath.Base(k), "vmlinuz-")
		known = known || release == running
		if !strings.Contains(release, "rescue") && flavour(release) == flavour(running) && compareReleases(release, newest) > 0 {
			newest = release
		}
	}
	// Where the running kernel is not among those in /boot (containers, foreign
	// kernels) they say nothing about it.
	if known && newest != running {
		r.add(pending, "kernel %s is installed, %s is running", newest, running)
	}
	if len(r.lines) == 0 {
		r.add(model.OK, "no reboot is pending, kernel %s", running)
	}
}

// flavour is the last word of a release: amd64, generic, cloud-amd64.
func flavour(release string) string {
	for i := range len(release) {
		if release[i] == '-' && i+1 < len(release) && (release[i+1] < '0' || release[i+1] > '9') {
			return release[i+1:]
		}
	}
	return ""
}

// compareReleases compares number by number, so that 6.1.0-9 is before 6.1.0-10.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		x, restA, numA := word(a)
		y, restB, numB := word(b)
		order := strings.Compare(x, y)
		if numA && numB {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			order = cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
		}
		if order != 0 {
			return order
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// word cuts the leading run of digits, or of anything else.
func word(s string) (head, rest string, number bool) {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i], s[i:], digit(s[0])
}
