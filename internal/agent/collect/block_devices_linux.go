package collect

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// diskCounters returns the I/O counters of a block device from /proc/diskstats. Without a name it returns the sums
// over all devices.
func (m *machine) diskCounters(name string) (sums [11]uint64, err error) {
	text, err := m.read("/proc/diskstats")
	if err != nil {
		return sums, err
	}
	found := name == ""
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3+len(sums) || name != "" && fields[2] != name {
			continue
		}
		found = true
		for i := range sums {
			n, err := strconv.ParseUint(fields[3+i], 10, 64)
			if err != nil {
				return sums, fmt.Errorf("/proc/diskstats has an unexpected line: %q", line)
			}
			sums[i] += n
		}
	}
	if !found {
		return sums, fmt.Errorf("this machine has no block device %s", name)
	}
	return sums, nil
}

// deviceTraffic returns a function that collects the reads or writes of a block device. The items are vfs.dev.read and
// vfs.dev.write[DEVICE,ops|sps|operations|sectors]. column is the place of the operations among the counters.
func deviceTraffic(column int) measureFunc {
	return func(_ context.Context, m *machine, k *Key) (item.Value, error) {
		name := k.Parameter(0, "all")
		if path := name; strings.HasPrefix(path, "/dev/") {
			name = strings.TrimPrefix(path, "/dev/")
			if device, err := filepath.EvalSymlinks(filepath.Join("/", m.root, path)); err == nil {
				name = filepath.Base(device) // of /dev/mapper/NAME
			}
		} else if name == "all" {
			name = ""
		}
		mode, column := k.Parameter(1, "ops"), column
		if mode == "sectors" || mode == "sps" {
			column += 2
		} else if mode != "ops" && mode != "operations" {
			return item.Value{}, errUnknownMode(k, 1, "ops", "sps", "operations", "sectors")
		}
		counters, err := m.diskCounters(name)
		if err != nil {
			return item.Value{}, err
		}
		if mode == "sectors" || mode == "operations" {
			return item.FromUnsigned(counters[column]), nil
		}
		now := []float64{m.boot().Seconds(), float64(counters[column])}
		before := m.exchangeCounters(k, now)
		if before == nil || now[0] <= before[0] || now[1] < before[1] {
			return item.Value{}, nil
		}
		return item.FromFloat((now[1] - before[1]) / (now[0] - before[0])), nil
	}
}

// discoverDevices collects vfs.dev.discovery, the list of block devices in Zabbix's JSON format for low-level
// discovery.
func discoverDevices(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	names, err := m.readNames("/sys/class/block")
	if err != nil {
		return item.Value{}, err
	}
	rows := []map[string]string{}
	for _, name := range names {
		text, err := m.read("/sys/class/block/" + name + "/uevent")
		if err != nil {
			continue // the device has been removed meanwhile
		}
		row := map[string]string{}
		for line := range strings.Lines(text) {
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
			case "DEVNAME", "DEVTYPE":
				row["{#"+name+"}"] = value
			}
		}
		rows = append(rows, row)
	}
	return jsonValue(rows)
}
