package probe

import (
	"context"
	"runtime"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

func memoryProbe() Probe {
	return Probe{
		Name: "memory", Summary: "Memory that programs can still get (the kernel's MemAvailable).",
		Args: []Arg{
			{Name: "warn", Type: Free, Default: "10%", Help: "warning when less is available"},
			{Name: "crit", Type: Free, Default: "5%", Help: "critical when less is available"},
		},
		run: func(_ context.Context, env *Env, a args, r *report) {
			info, err := env.meminfo()
			if err != nil {
				addUnsupported(r, runtime.GOOS, err)
				return
			}
			avail, ok := info["MemAvailable"]
			if !ok { // before Linux 3.14
				avail = info["MemFree"] + info["Buffers"] + info["Cached"]
			}
			judgeFree(a, r, "memory", avail, info["MemTotal"])
		},
	}
}

func swapProbe() Probe {
	return Probe{
		Name: "swap", Summary: "Free swap space. A machine without swap is well.",
		Args: []Arg{
			{Name: "warn", Type: Free, Default: "50%", Help: "warning when less is free"},
			{Name: "crit", Type: Free, Default: "20%", Help: "critical when less is free"},
		},
		run: func(_ context.Context, env *Env, a args, r *report) {
			info, err := env.meminfo()
			if err != nil {
				addUnsupported(r, runtime.GOOS, err)
				return
			}
			if info["SwapTotal"] == 0 {
				r.add(model.OK, "no swap on this machine")
				return
			}
			judgeFree(a, r, "swap", info["SwapFree"], info["SwapTotal"])
		},
	}
}

func judgeFree(a args, r *report, label string, avail, total float64) {
	warn, _ := a.free("warn")
	crit, _ := a.free("crit")
	r.add(statusOf(warn, crit, avail, total), "%s of %s available (%.1f%%)", bytesText(avail), bytesText(total), avail/max(total, 1)*100)
	r.measure(label, total-avail, "B", warn.usedAt(total), crit.usedAt(total), 0, total)
}

// meminfo reads /proc/meminfo into bytes.
func (e *Env) meminfo() (map[string]float64, error) {
	data, err := e.read("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	info := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			continue
		}
		if len(f) > 1 && f[1] == "kB" {
			v *= 1024
		}
		info[name] = v
	}
	return info, nil
}
