package collect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// readNames returns the sorted names of the files in a folder of /proc or /sys
func (m *machine) readNames(path string) (names []string, err error) {
	list, err := os.ReadDir(filepath.Join("/", m.root, path))
	if err != nil {
		return nil, fmt.Errorf("this machine has no file %s", path)
	}
	for _, one := range list {
		names = append(names, one.Name())
	}
	return names, nil
}

// uptime collects the item system.uptime, the seconds since the machine's start.
func uptime(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	text, err := m.read("/proc/uptime")
	if err != nil {
		return item.Value{}, err
	}
	f, err := strconv.ParseFloat(strings.Fields(text + " x")[0], 64)
	if err != nil {
		return item.Value{}, fmt.Errorf("/proc/uptime has an unexpected content: %q", text)
	}
	return item.FromUnsigned(uint64(f)), nil
}

// cpuLoad collects the load average, the item system.cpu.load[all|percpu,avg1|avg5|avg15].
func cpuLoad(_ context.Context, m *machine, k *Key) (item.Value, error) {
	text, err := m.read("/proc/loadavg")
	if err != nil {
		return item.Value{}, err
	}
	column, ok := map[string]int{"avg1": 0, "avg5": 1, "avg15": 2}[k.Parameter(1, "avg1")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 1, "avg1", "avg5", "avg15")
	}
	f := append(strings.Fields(text), "", "", "")
	load, err := strconv.ParseFloat(f[column], 64)
	if err != nil {
		return item.Value{}, fmt.Errorf("/proc/loadavg has an unexpected content: %q", text)
	}
	return loadPerCPU(k, load, func() (uint32, error) {
		lines, err := m.cpuLines()
		return uint32(max(len(lines)-1, 0)), err
	})
}

// discoverCPUs collects the item system.cpu.discovery, the list of CPUs for Zabbix's low-level discovery. A CPU
// without counters is offline.
func discoverCPUs(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	text, err := m.read("/proc/stat")
	if err != nil {
		return item.Value{}, err
	}
	type cpu struct {
		Number int    `json:"{#CPU.NUMBER}"`
		Status string `json:"{#CPU.STATUS}"`
	}
	var list []cpu
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "cpu")); err == nil && strings.HasPrefix(name, "cpu") {
			list = append(list, cpu{n, "online"})
		}
	}
	names, _ := m.readNames("/sys/devices/system/cpu") // none: those with counters
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "cpu"))
		if err == nil && strings.HasPrefix(name, "cpu") && !slices.ContainsFunc(list, func(one cpu) bool { return one.Number == n }) {
			list = append(list, cpu{n, "offline"})
		}
	}
	slices.SortFunc(list, func(a, b cpu) int { return a.Number - b.Number })
	return jsonValue(list)
}

// cpuLines returns the counters in the cpu lines of /proc/stat. The first line is the sum of all CPUs.
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
				return nil, fmt.Errorf("/proc/stat has an unexpected line: %q", line)
			}
		}
		lines = append(lines, counters)
	}
	if len(lines) == 0 {
		return nil, errors.New("/proc/stat has no counters of CPUs")
	}
	return lines, nil
}

// cpuNumber collects the item system.cpu.num[online|max], the number of CPUs. The kernel lists the CPUs that are
// online.
func cpuNumber(_ context.Context, m *machine, k *Key) (item.Value, error) {
	if mode := k.Parameter(0, "online"); mode != "online" && mode != "max" {
		return item.Value{}, errUnknownMode(k, 0, "online", "max")
	}
	lines, err := m.cpuLines()
	return item.FromUnsigned(uint64(max(len(lines)-1, 0))), err
}

// cpuStates are the columns of /proc/stat.
var cpuStates = []string{"user", "nice", "system", "idle", "iowait", "interrupt", "softirq", "steal"}

// cpuUtil collects the item system.cpu.util[all|N,STATE], the CPU's percentage of time in a state. The percentage
// counts the time since the last collection.
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
	return m.shareOfTime(k, cpuStates, lines[line])
}

// meminfo parses /proc/meminfo and returns its values in bytes by name
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

// memorySize collects the item vm.memory.size[MODE], an amount of memory in bytes. The mode is total, available and so
// on.
func memorySize(_ context.Context, m *machine, k *Key) (item.Value, error) {
	info, err := m.meminfo()
	if err != nil {
		return item.Value{}, err
	}
	return selectMemory(k, info["MemTotal"], []memoryAmount{
		{"total", info["MemTotal"]}, {"free", info["MemFree"]}, {"available", info["MemAvailable"]}, {"used", info["MemTotal"] - info["MemFree"]},
		{"buffers", info["Buffers"]}, {"cached", info["Cached"]}, {"active", info["Active"]}, {"inactive", info["Inactive"]},
		{"slab", info["Slab"]}, {"anon", info["AnonPages"]},
	}, "available", "used")
}

// swapSize collects the item system.swap.size[,MODE], an amount of swap space such as free or used.
func swapSize(_ context.Context, m *machine, k *Key) (item.Value, error) {
	info, err := m.meminfo()
	if err != nil {
		return item.Value{}, err
	}
	return selectSwap(k, info["SwapTotal"], info["SwapFree"])
}
