package probe

import (
	"context"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

func systemdProbe() Probe {
	return Probe{
		Name: "systemd", Summary: "Units of systemd that have failed. A machine without systemd is well.",
		Args: []Arg{
			{Name: "exclude", Type: List, Help: "units that may fail, as glob patterns"},
			{Name: "unit", Type: List, Help: "critical only for these (glob patterns); other failed units are a warning"},
		},
		run: runSystemd,
	}
}

func runSystemd(ctx context.Context, env *Env, a args, r *report) {
	if _, err := os.Stat(env.path("/run/systemd/system")); err != nil {
		r.add(model.OK, "this machine does not run systemd")
		return
	}
	out, err := exec.CommandContext(ctx, "systemctl", "list-units", "--state=failed", "--all", "--plain", "--no-legend", "--no-pager").Output()
	if err != nil {
		r.add(model.Unknown, "systemctl: %v", err)
		return
	}
	judgeUnits(a, r, string(out))
}

func judgeUnits(a args, r *report, listing string) {
	matches := func(patterns []string, unit string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, unit); return ok })
	}
	failed := 0
	for line := range strings.Lines(listing) {
		f := strings.Fields(line)
		if len(f) == 0 || matches(a.list("exclude"), f[0]) {
			continue
		}
		failed++
		status := model.Critical
		if units := a.list("unit"); len(units) > 0 && !matches(units, f[0]) {
			status = model.Warning
		}
		r.add(status, "%s failed", f[0])
	}
	if failed == 0 {
		r.add(model.OK, "no unit has failed")
	}
	r.measure("failed", float64(failed), "", nil, nil, 0, nan())
}
