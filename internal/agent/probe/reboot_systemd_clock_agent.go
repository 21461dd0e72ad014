package probe

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/beevik/ntp"

	"github.com/muster-fleet/muster/internal/model"
)

// runReboot reports whether the machine needs a reboot.
func runReboot(_ context.Context, env *Env, a argValues, r *report) error {
	pending, ok := model.ParseStatus(a.text("status"))
	if !ok {
		return fmt.Errorf("invalid status %q: expected \"ok\", \"warning\" or \"critical\"", a.text("status"))
	}
	release, err := kernelRelease()
	if err != nil {
		return unsupportedError(err)
	}
	addReboot(env, r, pending, release)
	return nil
}

// addReboot adds a needed reboot of the machine to the probe's report, for example for a newer kernel.
func addReboot(env *Env, r *report, pending model.Status, running string) {
	for _, flag := range []string{"/run/reboot-required", "/var/run/reboot-required"} {
		if _, err := os.Stat(env.pathBelowRoot(flag)); err != nil {
			continue
		}
		packages, _ := env.read(flag + ".pkgs")
		text := "a reboot is required"
		if f := strings.Fields(string(packages)); len(f) > 0 {
			text += " by " + strings.Join(f[:min(len(f), 5)], ", ")
		}
		r.addFinding(pending, "%s", text)
		break
	}
	newest, known := running, false
	kernels, _ := filepath.Glob(env.pathBelowRoot("/boot/vmlinuz-*"))
	for _, k := range kernels {
		release := strings.TrimPrefix(filepath.Base(k), "vmlinuz-")
		known = known || release == running
		if !strings.Contains(release, "rescue") && kernelFlavour(release) == kernelFlavour(running) && compareReleases(release, newest) > 0 {
			newest = release
		}
	}
	// Where the running kernel is not among those in /boot (containers, foreign
	// kernels) they say nothing about it.
	if known && newest != running {
		r.addFinding(pending, "kernel %s is installed, %s is running", newest, running)
	}
	if len(r.findings) == 0 {
		r.addFinding(model.OK, "no reboot is pending, kernel %s", running)
	}
}

// kernelFlavour returns the last part of a kernel release, such as amd64 in 6.1.0-9-amd64.
func kernelFlavour(release string) string {
	for i := range len(release) {
		if release[i] == '-' && i+1 < len(release) && (release[i+1] < '0' || release[i+1] > '9') {
			return release[i+1:]
		}
	}
	return ""
}

// compareReleases compares kernel releases number by number, so that 6.1.0-9 is before 6.1.0-10.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		x, restA, numA := cutNumberOrWord(a)
		y, restB, numB := cutNumberOrWord(b)
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

// cutNumberOrWord splits a kernel release after its first number or first run of non-digits.
func cutNumberOrWord(s string) (head, rest string, number bool) {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i], s[i:], digit(s[0])
}

// runSystemd reports the failed systemd units.
func runSystemd(ctx context.Context, env *Env, a argValues, r *report) error {
	if _, err := os.Stat(env.pathBelowRoot("/run/systemd/system")); err != nil {
		r.addFinding(model.OK, "this machine does not run systemd")
		return nil
	}
	out, err := exec.CommandContext(ctx, "systemctl", "list-units", "--state=failed", "--all", "--plain", "--no-legend", "--no-pager").Output()
	if err != nil {
		return fmt.Errorf("systemctl list-units failed: %v", err)
	}
	addFailedUnits(a, r, string(out))
	return nil
}

// addFailedUnits adds each failed systemd unit to the report. The status is WARNING if the check names units and the
// failed unit is not among them, else CRITICAL.
func addFailedUnits(a argValues, r *report, listing string) {
	failed := 0
	for line := range strings.Lines(listing) {
		f := strings.Fields(line)
		if len(f) == 0 || matchesAny(a.list("exclude"), f[0]) {
			continue
		}
		failed++
		status := model.Critical
		if units := a.list("unit"); len(units) > 0 && !matchesAny(units, f[0]) {
			status = model.Warning
		}
		r.addFinding(status, "%s failed", f[0])
	}
	if failed == 0 {
		r.addFinding(model.OK, "no unit has failed")
	}
	r.addPerformanceData("failed", float64(failed), "", thresholds{}, 0, noBound())
}

// offsetText formats a clock offset for people, such as 1.5 s ahead.
func offsetText(offset time.Duration) string {
	if offset < 0 {
		return ageText(-offset) + " behind"
	}
	return ageText(offset) + " ahead"
}

// runClock reports the offset of the machine's clock from the reference time. It asks an NTP server, else the
// Muster server, else the kernel's estimate.
func runClock(ctx context.Context, env *Env, a argValues, r *report) error {
	offset, by, ok := time.Duration(0), "", false
	if server := a.text("server"); server != "" {
		timeout := 5 * time.Second
		if deadline, has := ctx.Deadline(); has {
			timeout = min(timeout, time.Until(deadline))
		}
		answer, err := ntp.QueryWithOptions(server, ntp.QueryOptions{Timeout: timeout})
		if err == nil {
			err = answer.Validate()
		}
		if err != nil {
			return fmt.Errorf("query of NTP server %s failed: %v", server, err)
		}
		offset, by, ok = -answer.ClockOffset, "NTP server "+server, true
	}
	if !ok && env.ServerOffset != nil {
		offset, ok = env.ServerOffset()
		by = "the Muster server"
	}
	kernel, synced, err := kernelClock()
	switch {
	case !ok && err != nil:
		return unsupportedError(err)
	case !ok && !synced:
		r.addFinding(model.Warning, "the clock is not synchronized, and no server is available for a comparison")
		return nil
	case !ok:
		offset, by = kernel, "the kernel's time discipline"
	}
	most := a.thresholdsOf("warn", "crit", rangeAround)
	status, mend := most.status(offset.Seconds()), ""
	if status != model.OK {
		mend = "; synchronize the clock of that machine: timedatectl set-ntp true"
	}
	r.addFinding(status, "%s, says %s%s", offsetText(offset), by, mend)
	r.addPerformanceData("offset", offset.Seconds(), "s", most, noBound(), noBound())
	return nil
}

// AgentCounters has the state and counters of the agent itself, for the probe "agent".
type AgentCounters struct {
	Unacknowledged uint64 // signals that no server has acknowledged
	SpoolBytes     int64  // bytes of the waiting signals
	SpoolMost      int64  // limit of SpoolBytes
	Blocked        error  // the reason why the spool cannot write to its disk; nil: the spool can write

	Evicted uint64 // signals that the spool dropped
	Refused uint64 // signals that the server refused for good
	Lost    uint64 // results that the spool could not store

	Runs, Skipped, Late, Forks uint64
}

// MaxClockOffset is the offset from the server's clock above which the agent and its probe warn.
const MaxClockOffset = 5 * time.Second

// runAgent reports the spool and counters of the agent itself.
func runAgent(_ context.Context, env *Env, a argValues, r *report) error {
	if env.AgentCounters == nil {
		return fmt.Errorf("the probe \"agent\" works only in a running agent")
	}
	s := env.AgentCounters()
	free := a.freeThresholdsOf("warn", "crit")
	used, most := float64(s.SpoolBytes), float64(s.SpoolMost)
	r.addFinding(free.status(most-used, most), "%s, %s of %s (half of the spool's size)", countWithNoun(int(s.Unacknowledged), "signal in the spool", "signals in the spool"), bytesText(used), bytesText(most))
	if s.Blocked != nil {
		r.addFinding(model.Critical, "the spool cannot write to its disk: %v", s.Blocked)
	}
	r.addPerformanceData("spool", used, "B", free.usedThresholds(most), 0, most)
	r.addPerformanceData("waiting", float64(s.Unacknowledged), "", thresholds{}, 0, noBound())
	for _, c := range []struct {
		name string
		now  uint64
		text string // of a growth since the last run; empty: none
	}{
		{"gave_way", s.Evicted, "the spool dropped %d signals: it was full, or they were too old or damaged"},
		{"refused", s.Refused, "the server refused %d results: see the reason in the server's log"},
		{"lost", s.Lost, "the spool could not store %d results"},
		{"runs", s.Runs, ""}, {"forks", s.Forks, ""}, {"skipped", s.Skipped, ""}, {"late", s.Late, ""},
	} {
		if more := env.Memory.counterGrowth(c.name, c.now); more > 0 && c.text != "" {
			r.addFinding(model.Warning, c.text, more)
		}
		r.addPerformanceData(c.name, float64(c.now), "c", thresholds{}, noBound(), noBound())
	}
	if env.ServerOffset != nil {
		if offset, ok := env.ServerOffset(); ok && math.Abs(offset.Seconds()) > MaxClockOffset.Seconds() {
			r.addFinding(model.Warning, "the clock is %s, compared with the Muster server", offsetText(offset))
		}
	}
	return nil
}
