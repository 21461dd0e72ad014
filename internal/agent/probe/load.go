package probe

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

func loadProbe() Probe {
	return Probe{
		Name: "load", Summary: "Load average over 1, 5 and 15 minutes, per CPU.",
		Args: []Arg{
			{Name: "warn", Type: List, Default: "4, 2, 1.5", Unit: "per CPU", Help: "warning above these (1, 5, 15 minutes; one number counts for all)"},
			{Name: "crit", Type: List, Default: "8, 4, 3", Unit: "per CPU", Help: "critical above these"},
			{Name: "perCPU", Type: Bool, Default: "true", Help: "divide the load by the number of CPUs"},
		},
		run: runLoad,
	}
}

func runLoad(_ context.Context, env *Env, a args, r *report) {
	warn, errWarn := triple(a.list("warn"))
	crit, errCrit := triple(a.list("crit"))
	for _, err := range []error{errWarn, errCrit} {
		if err != nil {
			r.add(model.Unknown, "%v", err)
			return
		}
	}
	data, err := env.read("/proc/loadavg")
	if err != nil {
		addUnsupported(r, runtime.GOOS, err)
		return
	}
	f := strings.Fields(string(data))
	cpus := env.cpus()
	share := 1.0
	if a.bool("perCPU") {
		share = float64(cpus)
	}
	status := model.OK
	var texts []string
	for i, name := range [...]string{"load1", "load5", "load15"} {
		if i >= len(f) {
			r.add(model.Unknown, "/proc/loadavg cannot be read: %q", data)
			return
		}
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			r.add(model.Unknown, "/proc/loadavg cannot be read: %q", data)
			return
		}
		status = worse(status, statusAbove(v/share, warn[i], true, crit[i], true))
		texts = append(texts, f[i])
		r.measure(name, v, "", upTo(warn[i]*share, true), upTo(crit[i]*share, true), 0, nan())
	}
	r.add(status, "load average %s on %s", strings.Join(texts, ", "), plural(cpus, "CPU", "CPUs"))
}

func triple(list []string) (v [3]float64, err error) {
	if len(list) != 1 && len(list) != 3 {
		return v, fmt.Errorf("%q: want one number or three, such as 4, 2, 1.5", strings.Join(list, ", "))
	}
	for i := range v {
		text := list[min(i, len(list)-1)]
		if v[i], err = strconv.ParseFloat(text, 64); err != nil {
			return v, fmt.Errorf("%q: want a number", text)
		}
	}
	return v, nil
}

// cpus counts the machine's CPUs, not those that this process may use.
func (e *Env) cpus() int {
	data, err := e.read("/proc/stat")
	n := 0
	if err == nil {
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, "cpu") && !strings.HasPrefix(line, "cpu ") {
				n++
			}
		}
	}
	if n == 0 {
		n = runtime.NumCPU()
	}
	return n
}
