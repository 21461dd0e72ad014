package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// machine is the computer that collectors measure.
type machine struct {
	root   string // of /proc; empty: /
	host   string
	memory map[string][]float64 // counters of the last collection, by key, for collectors that compare two
	hangs  map[string]chan diskAnswer
}

// read returns the content of a file of the kernel.
func (m *machine) read(path string) (string, error) {
	data, err := os.ReadFile(filepath.Join("/", m.root, path))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("this machine has no %s", path)
	}
	return string(data), err
}

// unknownMode is the error about a parameter that a collector does not know.
func unknownMode(k *Key, i int, allowed ...string) error {
	return fmt.Errorf("%s: unknown parameter %q; write one of %s", k.Name, k.Parameter(i, ""), strings.Join(allowed, ", "))
}

// uptime collects system.uptime, in seconds.
func uptime(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	text, err := m.read("/proc/uptime")
	if err != nil {
		return item.Value{}, err
	}
	f, err := strconv.ParseFloat(strings.Fields(text + " x")[0], 64)
	if err != nil {
		return item.Value{}, fmt.Errorf("/proc/uptime cannot be read: %q", text)
	}
	return item.FromUnsigned(uint64(f)), nil
}

// cpuLoad collects system.cpu.load[all|percpu,avg1|avg5|avg15].
func cpuLoad(_ context.Context, m *machine, k *Key) (item.Value, error) {
	text, err := m.read("/proc/loadavg")
	if err != nil {
		return item.Value{}, err
	}
	column, ok := map[string]int{"avg1": 0, "avg5": 1, "avg15": 2}[k.Parameter(1, "avg1")]
	if !ok {
		return item.Value{}, unknownMode(k, 1, "avg1", "avg5", "avg15")
	}
	f := append(strings.Fields(text), "", "", "")
	load, err := strconv.ParseFloat(f[column], 64)
	if err != nil {
		return item.Value{}, fmt.Errorf("/proc/loadavg cannot be read: %q", text)
	}
	switch k.Parameter(0, "all") {
	case "all":
	case "percpu":
		lines, err := m.cpuLines()
		if err != nil {
			return item.Value{}, err
		}
		load /= float64(max(len(lines)-1, 1))
	default:
		return item.Value{}, unknownMode(k, 0, "all", "percpu")
	}
	return item.FromFloat(load), nil
}

// cpuLines returns the counters of /proc/stat: all CPUs together, then each.
func (m *machine) cpuLines() (lines [][]float64, err error) {
	text, err := m.read("/proc/stat")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[0], "cpu") {
			break
		}
		counters := make([]float64, 8)
		for i := range min(len(fields)-1, len(counters)) {
			if counters[i], err = strconv.ParseFloat(fields[i+1], 64); err != nil {
				return nil, fmt.Errorf("/proc/stat cannot be read: %q", line)
			}
		}
		lines = append(lines, counters)
	}
	if len(lines) == 0 {
		return nil, errors.New("/proc/stat has no counters of CPUs")
	}
	return lines, nil
}

// cpuNumber collects system.cpu.num: the CPUs that are online.
func cpuNumber(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	lines, err := m.cpuLines()
	return item.FromUnsigned(uint64(max(len(lines)-1, 0))), err
}

// cpuStates are the columns of /proc/stat.
var cpuStates = []string{"user", "nice", "system", "idle", "iowait", "interrupt", "softirq", "steal"}

// cpuUtil collects system.cpu.util[all|N,STATE]: the share of a state since the last collection, in percent.
func cpuUtil(_ context.Context, m *machine, k *Key) (item.Value, error) {
	lines, err := m.cpuLines()
	if err != nil {
		return item.Value{}, err
	}
	line := 0
	if cpu := k.Parameter(0, "all"); cpu != "all" {
		n, err := strconv.Atoi(cpu)
		if err != nil || n < 0 || n >= len(lines)-1 {
			return item.Value{}, fmt.Errorf("this machine has no CPU %s", cpu)
		}
		line = n + 1
	}
	column := -1
	for i, name := range cpuStates {
		if name == k.Parameter(1, "user") {
			column = i
		}
	}
	if column < 0 {
		return item.Value{}, unknownMode(k, 1, cpuStates...)
	}
	id := "system.cpu.util " + strings.Join(k.Parameters, ",")
	now, before := lines[line], m.memory[id]
	m.memory[id] = now
	if before == nil {
		return item.Value{}, nil
	}
	total := 0.0
	for i := range now {
		total += now[i] - before[i]
	}
	if total <= 0 {
		return item.Value{}, nil
	}
	return item.FromFloat((now[column] - before[column]) / total * 100), nil
}

// meminfo returns the numbers of /proc/meminfo, in bytes.
func (m *machine) meminfo() (map[string]float64, error) {
	text, err := m.read("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	info := map[string]float64{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		number, inKiB := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if v, err := strconv.ParseFloat(number, 64); err == nil {
			if inKiB {
				v *= 1024
			}
			info[name] = v
		}
	}
	return info, nil
}

// memorySize collects vm.memory.size[MODE].
func memorySize(_ context.Context, m *machine, k *Key) (item.Value, error) {
	info, err := m.meminfo()
	if err != nil {
		return item.Value{}, err
	}
	total, available := info["MemTotal"], info["MemAvailable"]
	used := total - info["MemFree"]
	switch mode := k.Parameter(0, "total"); mode {
	case "pused", "pavailable":
		if total == 0 {
			return item.Value{}, errors.New("/proc/meminfo has no total")
		}
		if mode == "pused" {
			return item.FromFloat(used / total * 100), nil
		}
		return item.FromFloat(available / total * 100), nil
	case "total":
		return item.FromUnsigned(uint64(total)), nil
	case "free":
		return item.FromUnsigned(uint64(info["MemFree"])), nil
	case "available":
		return item.FromUnsigned(uint64(available)), nil
	case "used":
		return item.FromUnsigned(uint64(used)), nil
	case "buffers":
		return item.FromUnsigned(uint64(info["Buffers"])), nil
	case "cached":
		return item.FromUnsigned(uint64(info["Cached"])), nil
	case "shared":
		return item.FromUnsigned(uint64(info["Shmem"])), nil
	}
	return item.Value{}, unknownMode(k, 0, "total", "free", "available", "pavailable", "used", "pused", "buffers", "cached", "shared")
}

// swapSize collects system.swap.size[,MODE].
func swapSize(_ context.Context, m *machine, k *Key) (item.Value, error) {
	info, err := m.meminfo()
	if err != nil {
		return item.Value{}, err
	}
	total, free := info["SwapTotal"], info["SwapFree"]
	percent := func(part float64) (item.Value, error) {
		if total == 0 {
			return item.FromFloat(0), nil
		}
		return item.FromFloat(part / total * 100), nil
	}
	switch k.Parameter(1, "free") {
	case "total":
		return item.FromUnsigned(uint64(total)), nil
	case "free":
		return item.FromUnsigned(uint64(free)), nil
	case "used":
		return item.FromUnsigned(uint64(total - free)), nil
	case "pfree":
		return percent(free)
	case "pused":
		return percent(total - free)
	}
	return item.Value{}, unknownMode(k, 1, "total", "free", "used", "pfree", "pused")
}

// networkTraffic returns the collector of net.if.in or net.if.out[INTERFACE,bytes|packets|errors|dropped]. first is the
// column of the direction in /proc/net/dev.
func networkTraffic(first int) collector {
	return func(_ context.Context, m *machine, k *Key) (item.Value, error) {
		name := k.Parameter(0, "")
		if name == "" {
			return item.Value{}, fmt.Errorf("%s: write the name of an interface: %s[eth0]", k.Name, k.Name)
		}
		column, ok := map[string]int{"bytes": 0, "packets": 1, "errors": 2, "dropped": 3}[k.Parameter(1, "bytes")]
		if !ok {
			return item.Value{}, unknownMode(k, 1, "bytes", "packets", "errors", "dropped")
		}
		text, err := m.read("/proc/net/dev")
		if err != nil {
			return item.Value{}, err
		}
		for line := range strings.Lines(text) {
			device, numbers, ok := strings.Cut(line, ":")
			fields := strings.Fields(numbers)
			if !ok || strings.TrimSpace(device) != name || len(fields) <= first+column {
				continue
			}
			n, err := strconv.ParseUint(fields[first+column], 10, 64)
			if err != nil {
				return item.Value{}, fmt.Errorf("/proc/net/dev cannot be read: %q", line)
			}
			return item.FromUnsigned(n), nil
		}
		return item.Value{}, fmt.Errorf("this machine has no interface %s", name)
	}
}

// processNumber collects proc.num[NAME,,STATE,]: running programs with a name.
func processNumber(_ context.Context, m *machine, k *Key) (item.Value, error) {
	states, ok := map[string]string{"all": "", "run": "R", "sleep": "SDI", "zomb": "Z", "disk": "D", "trace": "tT"}[k.Parameter(2, "all")]
	if !ok {
		return item.Value{}, unknownMode(k, 2, "all", "run", "sleep", "zomb", "disk", "trace")
	}
	if k.Parameter(1, "") != "" || k.Parameter(3, "") != "" {
		return item.Value{}, errors.New("proc.num: the agent selects by name and state only; leave user and command line empty")
	}
	dir, err := os.Open(filepath.Join("/", m.root, "/proc"))
	if err != nil {
		return item.Value{}, errors.New("this machine has no /proc")
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return item.Value{}, err
	}
	count := uint64(0)
	for _, pid := range names {
		if pid[0] < '1' || pid[0] > '9' {
			continue
		}
		stat, err := m.read("/proc/" + pid + "/stat")
		if err != nil {
			continue // the process has ended meanwhile
		}
		if m.isProcess(pid, []byte(stat), k.Parameter(0, ""), states) {
			count++
		}
	}
	return item.FromUnsigned(count), nil
}

// isProcess reports whether a process has this name and one of the states. The kernel keeps 15 bytes of a name; a longer
// one is compared with the command line.
func (m *machine) isProcess(pid string, stat []byte, name, states string) bool {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open || end+2 >= len(stat) || states != "" && strings.IndexByte(states, stat[end+2]) < 0 {
		return false
	}
	comm := string(stat[open+1 : end])
	if name == "" || comm == name {
		return true
	}
	if len(comm) < 15 || !strings.HasPrefix(name, comm) {
		return false
	}
	line, err := m.read("/proc/" + pid + "/cmdline")
	first, _, _ := strings.Cut(line, "\x00")
	return err == nil && filepath.Base(first) == name
}
