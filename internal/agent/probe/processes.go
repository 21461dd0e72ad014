package probe

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/muster-fleet/muster/internal/model"
)

func processesProbe() Probe {
	return Probe{
		Name: "processes", Summary: "How many processes there are, all or of one name, and how many are zombies.",
		Args: []Arg{
			{Name: "name", Type: Text, Help: "count only processes of this program (file name, without folder)"},
			{Name: "warn", Type: Range, Help: "warning when the count is outside this range"},
			{Name: "crit", Type: Range, Help: "critical when the count is outside; with name the default is 1: (at least one)"},
			{Name: "zombiesWarn", Type: Number, Default: "20", Help: "warning above this many zombies"},
			{Name: "zombiesCrit", Type: Number, Help: "critical above this many zombies"},
		},
		run: runProcesses,
	}
}

func runProcesses(ctx context.Context, env *Env, a args, r *report) {
	dir, err := os.Open(env.path("/proc"))
	if err != nil {
		addUnsupported(r, runtime.GOOS, err)
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		addUnsupported(r, runtime.GOOS, err)
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
	warn, crit := a.nagiosRange("warn"), a.nagiosRange("crit")
	what := "processes"
	if name != "" {
		what = "processes of " + name
		if warn == nil && crit == nil {
			crit = &model.Range{Start: 1, End: math.Inf(1)}
		}
	}
	r.add(byRanges(float64(count), warn, crit), "%d %s", count, what)
	r.measure("processes", float64(count), "", warn, crit, 0, nan())
	zw, hasWarn := a.number("zombiesWarn")
	zc, hasCrit := a.number("zombiesCrit")
	if status := statusAbove(float64(zombies), zw, hasWarn, zc, hasCrit); status != model.OK {
		r.add(status, "%d zombies", zombies)
	}
	r.measure("zombies", float64(zombies), "", upTo(zw, hasWarn), upTo(zc, hasCrit), 0, nan())
}

// isProgram compares the kernel's name of a process, which is cut after 15 bytes, or
// else the program it was started as.
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
