package collect

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// processFilter selects processes by name, user, state and command line. An empty field selects all.
type processFilter struct {
	name, uid, states string
	commandLine       *regexp.Regexp
}

// newProcessFilter returns the processFilter for the name, user and command line in the parameters of an item key.
// known is false if this machine has no such user: no process matches.
func newProcessFilter(k *Key) (f processFilter, known bool, err error) {
	f.name = k.Parameter(0, "")
	if pattern := k.Parameter(3, ""); pattern != "" {
		if f.commandLine, err = regexp.Compile(pattern); err != nil {
			return f, false, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	if name := k.Parameter(1, ""); name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return f, false, nil
		}
		f.uid = u.Uid
	}
	return f, true, nil
}

// processes calls the function `each` with the fields of /proc/PID/status, for every process that matches the filter
func (m *machine) processes(f processFilter, each func(status map[string]string)) error {
	names, err := m.readNames("/proc")
	if err != nil {
		return err
	}
	for _, pid := range names {
		if pid[0] < '1' || pid[0] > '9' {
			continue
		}
		text, err := m.read("/proc/" + pid + "/status")
		if err != nil {
			continue // the process has ended meanwhile
		}
		status := map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(line, ":")
			status[name] = strings.TrimSpace(value)
		}
		uid, _, _ := strings.Cut(status["Uid"], "\t")
		if f.uid != "" && f.uid != uid || f.states != "" && !strings.HasPrefix(status["State"], f.states) || !m.isNamed(pid, status["Name"], &f) {
			continue
		}
		each(status)
	}
	return nil
}

// isNamed reports whether a process has the name and the command line that the filter asks for. The kernel keeps 15
// bytes of a name, so that the program of the command line counts as well.
func (m *machine) isNamed(pid, name string, f *processFilter) bool {
	if (f.name == "" || f.name == name) && f.commandLine == nil {
		return true
	}
	line, err := m.read("/proc/" + pid + "/cmdline")
	if err != nil {
		return false
	}
	program, _, _ := strings.Cut(line, "\x00")
	line = strings.ReplaceAll(strings.TrimRight(line, "\x00"), "\x00", " ")
	return (f.name == "" || f.name == name || f.name == filepath.Base(program)) && (f.commandLine == nil || f.commandLine.MatchString(line))
}

// processNumber collects the item proc.num[NAME,USER,STATE,COMMAND LINE], the number of matching processes.
func processNumber(_ context.Context, m *machine, k *Key) (item.Value, error) {
	states, ok := map[string]string{"all": "", "run": "R", "sleep": "S", "zomb": "Z", "disk": "D", "trace": "T"}[k.Parameter(2, "all")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 2, "all", "run", "sleep", "zomb", "disk", "trace")
	}
	f, known, err := newProcessFilter(k)
	if err != nil {
		return item.Value{}, err
	}
	count := uint64(0)
	if f.states = states; known {
		err = m.processes(f, func(map[string]string) { count++ })
	}
	return item.FromUnsigned(count), err
}

// processMemoryFields are the lines of /proc/PID/status for the memory types of proc.mem.
var processMemoryFields = map[string][]string{
	"vsize": {"VmSize"}, "rss": {"VmRSS"}, "pmem": {"VmRSS"}, "size": {"VmExe", "VmData", "VmStk"}, "data": {"VmData"}, "exe": {"VmExe"}, "hwm": {"VmHWM"},
	"lck": {"VmLck"}, "lib": {"VmLib"}, "peak": {"VmPeak"}, "pin": {"VmPin"}, "pte": {"VmPTE"}, "stk": {"VmStk"}, "swap": {"VmSwap"},
}

// processMemory collects the item proc.mem[NAME,USER,MODE,COMMAND LINE,TYPE], the memory of matching processes.
// Threads of the kernel have no memory of their own.
func processMemory(_ context.Context, m *machine, k *Key) (item.Value, error) {
	kind := k.Parameter(4, "vsize")
	fields, ok := processMemoryFields[kind]
	if !ok {
		return item.Value{}, errUnknownMode(k, 4, "vsize", "rss", "pmem", "size", "data", "exe", "hwm", "lck", "lib", "peak", "pin", "pte", "stk", "swap")
	}
	unit := 1.0
	if kind == "pmem" {
		info, err := m.meminfo()
		if err != nil || info["MemTotal"] == 0 {
			return item.Value{}, errors.Join(errors.New("/proc/meminfo has no total"), err)
		}
		unit = info["MemTotal"] / 100
	}
	f, known, err := newProcessFilter(k)
	if err != nil {
		return item.Value{}, err
	}
	count, sum, least, most := 0.0, 0.0, 0.0, 0.0
	if known {
		err = m.processes(f, func(status map[string]string) {
			bytes := 0.0
			for _, field := range fields {
				number, ok := strings.CutSuffix(status[field], " kB")
				n, err := strconv.ParseFloat(number, 64)
				if !ok || err != nil {
					return
				}
				bytes += n * 1024
			}
			if least = min(least, bytes); count == 0 {
				least = bytes
			}
			most, sum, count = max(most, bytes), sum+bytes, count+1
		})
	}
	mode := k.Parameter(2, "sum")
	value, ok := map[string]float64{"sum": sum, "avg": sum / max(count, 1), "max": most, "min": least}[mode]
	switch {
	case err != nil:
		return item.Value{}, err
	case !ok:
		return item.Value{}, errUnknownMode(k, 2, "sum", "avg", "max", "min")
	case kind == "pmem" || mode == "avg":
		return item.FromFloat(value / unit), nil
	}
	return item.FromUnsigned(uint64(value)), nil
}
