package probe

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	if err := cmp.Or(errWarn, errCrit); err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	data, err := env.read("/proc/loadavg")
	if err != nil {
		addUnsupported(r, err)
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
		text := append(f, "", "", "")[i]
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			r.add(model.Unknown, "/proc/loadavg cannot be read: %q", data)
			return
		}
		most := levels{atMost(warn[i] * share), atMost(crit[i] * share)}
		status = worse(status, most.status(v))
		texts = append(texts, text)
		r.measure(name, v, "", most, 0, nan())
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
	n = cmp.Or(n, runtime.NumCPU())
	return n
}

func memoryProbe() Probe {
	return freeProbe("memory", "Memory available to programs (the kernel's MemAvailable).", "available", "10%", "5%",
		func(info map[string]float64) (avail, total float64) {
			avail, ok := info["MemAvailable"]
			if !ok { // before Linux 3.14
				avail = info["MemFree"] + info["Buffers"] + info["Cached"]
			}
			return avail, info["MemTotal"]
		})
}

func swapProbe() Probe {
	return freeProbe("swap", "Free swap space. A machine without swap is OK.", "free", "50%", "20%",
		func(info map[string]float64) (avail, total float64) { return info["SwapFree"], info["SwapTotal"] })
}

// freeProbe returns a probe of one free amount in /proc/meminfo. word is the amount in the help of its arguments.
func freeProbe(name, summary, word, warn, crit string, amount func(info map[string]float64) (avail, total float64)) Probe {
	return Probe{
		Name: name, Summary: summary,
		Args: []Arg{
			{Name: "warn", Type: Free, Default: warn, Help: "warning when less is " + word},
			{Name: "crit", Type: Free, Default: crit, Help: "critical when less is " + word},
		},
		run: func(_ context.Context, env *Env, a args, r *report) {
			info, err := env.meminfo()
			if err != nil {
				addUnsupported(r, err)
				return
			}
			avail, total := amount(info)
			if total == 0 && name == "swap" {
				r.add(model.OK, "no swap on this machine")
				return
			}
			free := a.free("warn", "crit")
			r.add(free.status(avail, total), "%s of %s available (%.1f%%)", bytesText(avail), bytesText(total), avail/max(total, 1)*100)
			r.measure(name, total-avail, "B", free.usedLevels(total), 0, total)
		},
	}
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

func processesProbe() Probe {
	return Probe{
		Name: "processes", Summary: "Number of processes, all or of one name, and number of zombies.",
		Args: []Arg{
			{Name: "name", Type: Text, Help: "count only processes of this program (file name, without folder)"},
			{Name: "warn", Type: Range, Help: "warning when the count is outside this range"},
			{Name: "crit", Type: Range, Help: "critical when the count is outside this range; with name the default is 1: (at least one)"},
			{Name: "zombiesWarn", Type: Number, Default: "20", Help: "warning above this many zombies"},
			{Name: "zombiesCrit", Type: Number, Help: "critical above this many zombies"},
		},
		run: runProcesses,
	}
}

func runProcesses(ctx context.Context, env *Env, a args, r *report) {
	dir, err := os.Open(env.path("/proc"))
	if err != nil {
		addUnsupported(r, err)
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		addUnsupported(r, err)
		return
	}
	name := a.text("name")
	count, zombies := 0, 0
	for _, pid := range names {
		if pid[0] < '1' || pid[0] > '9' || ctx.Err() != nil {
			continue
		}
		stat, err := env.read("/proc/" + pid + "/stat")
		if err != nil {
			continue // gone meanwhile
		}
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if open < 0 || end < open || end+2 >= len(stat) {
			continue
		}
		if stat[end+2] == 'Z' {
			zombies++
		}
		if name == "" || stat[end+2] != 'Z' && env.isProgram(pid, string(stat[open+1:end]), name) {
			count++
		}
	}
	allowed := a.levels("warn", "crit", nil)
	what := "processes"
	if name != "" {
		what = "processes of " + name
		if allowed == (levels{}) {
			allowed.crit = atLeast(1)
		}
	}
	r.add(allowed.status(float64(count)), "%d %s", count, what)
	r.measure("processes", float64(count), "", allowed, 0, nan())
	most := a.levels("zombiesWarn", "zombiesCrit", atMost)
	if status := most.status(float64(zombies)); status != model.OK {
		r.add(status, "%d zombies", zombies)
	}
	r.measure("zombies", float64(zombies), "", most, 0, nan())
}

// isProgram reports whether a process runs the program of this name: by the kernel's name of the process, which has at
// most 15 bytes, or else by the first word of its command line.
func (e *Env) isProgram(pid, comm, name string) bool {
	if comm == name {
		return true
	}
	if len(name) < 15 && len(comm) == 15 {
		return false
	}
	cmdline, err := e.read("/proc/" + pid + "/cmdline")
	if err != nil {
		return false
	}
	first, _, _ := bytes.Cut(cmdline, []byte{0})
	return filepath.Base(string(first)) == name
}
