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

// runLoad reports the load averages over 1, 5 and 15 minutes, with a status by thresholds. With perCPU, the thresholds
// count for each CPU.
func runLoad(_ context.Context, env *Env, a argValues, r *report) error {
	warn, errWarn := parseLoadThresholds(a.list("warn"))
	crit, errCrit := parseLoadThresholds(a.list("crit"))
	if err := cmp.Or(errWarn, errCrit); err != nil {
		return err
	}
	data, err := env.read("/proc/loadavg")
	if err != nil {
		return unsupportedError(err)
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
			return fmt.Errorf("/proc/loadavg has unexpected content: %q", data)
		}
		most := thresholds{rangeAtMost(warn[i] * share), rangeAtMost(crit[i] * share)}
		status = worseStatus(status, most.status(v))
		texts = append(texts, text)
		r.addPerformanceData(name, v, "", most, 0, noBound())
	}
	r.addFinding(status, "load average %s on %s", strings.Join(texts, ", "), countWithNoun(cpus, "CPU", "CPUs"))
	return nil
}

// parseLoadThresholds parses the load thresholds for 1, 5 and 15 minutes. A single number applies to all three.
func parseLoadThresholds(list []string) (v [3]float64, err error) {
	if len(list) != 1 && len(list) != 3 {
		return v, fmt.Errorf("invalid load threshold %q: expected one number or three, such as 4, 2, 1.5", strings.Join(list, ", "))
	}
	for i := range v {
		text := list[min(i, len(list)-1)]
		if v[i], err = strconv.ParseFloat(text, 64); err != nil {
			return v, fmt.Errorf("invalid value %q: expected a number", text)
		}
	}
	return v, nil
}

// cpus counts all CPUs of the machine. CPUs that the agent may not use count, too.
func (e *Env) cpus() int {
	data, _ := e.read("/proc/stat")
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "cpu") && !strings.HasPrefix(line, "cpu ") {
			n++
		}
	}
	return cmp.Or(n, runtime.NumCPU())
}

// availableMemory returns available and total memory in bytes, from /proc/meminfo.
func availableMemory(info map[string]float64) (avail, total float64) {
	avail, ok := info["MemAvailable"]
	if !ok { // before Linux 3.14
		avail = info["MemFree"] + info["Buffers"] + info["Cached"]
	}
	return avail, info["MemTotal"]
}

// freeSwap returns free and total swap space in bytes, from /proc/meminfo.
func freeSwap(info map[string]float64) (avail, total float64) {
	return info["SwapFree"], info["SwapTotal"]
}

// freeProbe returns a probe that compares the free memory or swap in /proc/meminfo with thresholds. word is the amount
// in the help of its arguments.
func freeProbe(name, summary, word, warn, crit string, amount func(info map[string]float64) (avail, total float64)) Probe {
	return Probe{
		Name: name, Summary: summary,
		Args: []Arg{
			{Name: "warn", Type: Free, Default: warn, Help: "warning when less is " + word},
			{Name: "crit", Type: Free, Default: crit, Help: "critical when less is " + word},
		},
		run: func(_ context.Context, env *Env, a argValues, r *report) error {
			info, err := env.meminfo()
			if err != nil {
				return unsupportedError(err)
			}
			avail, total := amount(info)
			if total == 0 && name == "swap" {
				r.addFinding(model.OK, "no swap on this machine")
				return nil
			}
			free := a.freeThresholdsOf("warn", "crit")
			r.addFinding(free.status(avail, total), "%s of %s available (%.1f%%)", bytesText(avail), bytesText(total), avail/max(total, 1)*100)
			r.addPerformanceData(name, total-avail, "B", free.usedThresholds(total), 0, total)
			return nil
		},
	}
}

// meminfo parses /proc/meminfo and returns its values in bytes.
func (e *Env) meminfo() (map[string]float64, error) {
	data, err := e.read("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	info := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		number, inKiB := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		if inKiB {
			v *= 1024
		}
		info[name] = v
	}
	return info, nil
}

// runProcesses counts the processes of a program or of the whole machine, and all zombies.
func runProcesses(ctx context.Context, env *Env, a argValues, r *report) error {
	dir, err := os.Open(env.pathBelowRoot("/proc"))
	if err != nil {
		return unsupportedError(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return unsupportedError(err)
	}
	name := a.text("name")
	count, zombies := 0, 0
	for _, pid := range names {
		if pid[0] < '1' || pid[0] > '9' || ctx.Err() != nil {
			continue
		}
		stat, err := env.read("/proc/" + pid + "/stat")
		if err != nil {
			continue // the process has ended meanwhile
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
	allowed := a.thresholdsOf("warn", "crit", nil)
	what := "processes"
	if name != "" {
		what = "processes of " + name
		if allowed == (thresholds{}) {
			allowed.crit = rangeAtLeast(1)
		}
	}
	r.addFinding(allowed.status(float64(count)), "%d %s", count, what)
	r.addPerformanceData("processes", float64(count), "", allowed, 0, noBound())
	most := a.thresholdsOf("zombiesWarn", "zombiesCrit", rangeAtMost)
	if status := most.status(float64(zombies)); status != model.OK {
		r.addFinding(status, "%d zombies", zombies)
	}
	r.addPerformanceData("zombies", float64(zombies), "", most, 0, noBound())
	return nil
}

// isProgram reports whether a process runs the program with the given name. It compares the program's name with comm,
// the kernel's name of the process (at most 15 bytes), then with the first word of the command line.
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
