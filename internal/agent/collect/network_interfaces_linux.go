package collect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// networkLine is one line of /proc/net/dev, with the name and counters of a network interface.
type networkLine struct {
	name     string
	counters []string // eight of receiving, eight of sending
}

// networkLines returns the parsed lines of /proc/net/dev, one for each network interface
func (m *machine) networkLines() (lines []networkLine, err error) {
	text, err := m.read("/proc/net/dev")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if name, numbers, ok := strings.Cut(line, ":"); ok {
			lines = append(lines, networkLine{strings.TrimSpace(name), strings.Fields(numbers)})
		}
	}
	return lines, nil
}

// networkLine returns the counters of a network interface from /proc/net/dev. The interface is the first parameter of
// the item key.
func (m *machine) networkLine(k *Key) ([]string, error) {
	name := k.Parameter(0, "")
	if name == "" {
		return nil, fmt.Errorf("%s: the name of an interface is missing; write for example %s[eth0]", k.Name, k.Name)
	}
	lines, err := m.networkLines()
	for _, line := range lines {
		if line.name == name && len(line.counters) >= 16 {
			return line.counters, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("this machine has no network interface %s", name)
	}
	return nil, err
}

// networkTraffic returns a function that collects the received or sent traffic of a network interface. The items are
// net.if.in, net.if.out and net.if.total[INTERFACE,MODE].
func networkTraffic(in, out bool) measureFunc {
	columns := map[string][]int{}
	for i, name := range []string{"bytes", "packets", "errors", "dropped", "overruns", "frame", "compressed", "multicast"} {
		if in {
			columns[name] = append(columns[name], i)
		}
	}
	for i, name := range []string{"bytes", "packets", "errors", "dropped", "overruns", "collisions", "carrier", "compressed"} {
		if out {
			columns[name] = append(columns[name], 8+i)
		}
	}
	if in && out {
		maps.DeleteFunc(columns, func(_ string, list []int) bool { return len(list) < 2 })
	}
	return func(_ context.Context, m *machine, k *Key) (item.Value, error) {
		list, ok := columns[k.Parameter(1, "bytes")]
		if !ok {
			return item.Value{}, errUnknownMode(k, 1, slices.Sorted(maps.Keys(columns))...)
		}
		counters, err := m.networkLine(k)
		if err != nil {
			return item.Value{}, err
		}
		sum := uint64(0)
		for _, column := range list {
			n, err := strconv.ParseUint(counters[column], 10, 64)
			if err != nil {
				return item.Value{}, fmt.Errorf("/proc/net/dev has an unexpected line: %q", counters[column])
			}
			sum += n
		}
		return item.FromUnsigned(sum), nil
	}
}

// networkCollisions collects the item net.if.collisions[INTERFACE], the number of collisions on a network interface.
func networkCollisions(_ context.Context, m *machine, k *Key) (item.Value, error) {
	counters, err := m.networkLine(k)
	if err != nil {
		return item.Value{}, err
	}
	return unsignedField("/proc/net/dev", counters, 13)
}

// discoverInterfaces collects the item net.if.discovery, the network interfaces for Zabbix's low-level discovery.
func discoverInterfaces(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	lines, err := m.networkLines()
	rows := []map[string]string{}
	for _, line := range lines {
		rows = append(rows, map[string]string{"{#IFNAME}": line.name})
	}
	if err != nil {
		return item.Value{}, err
	}
	return jsonValue(rows)
}
