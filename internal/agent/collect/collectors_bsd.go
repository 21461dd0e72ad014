//go:build darwin || freebsd

package collect

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/item"
)

// bsdMeasures returns the functions that macOS and FreeBSD share, by the names of their keys.
func bsdMeasures() map[string]measureFunc {
	return map[string]measureFunc{
		"kernel.maxfiles":   sysctlNumber("kern.maxfiles"),
		"kernel.maxproc":    sysctlNumber("kern.maxproc"),
		"net.if.collisions": networkCollisions,
		"net.if.discovery":  discoverInterfaces,
		"net.if.in":         networkTraffic(true, false),
		"net.if.out":        networkTraffic(false, true),
		"net.if.total":      networkTraffic(true, true),
		"system.boottime":   bootTime,
		"system.cpu.load":   cpuLoad,
		"system.cpu.num":    cpuNumber,
		"system.uname":      uname,
		"system.uptime":     uptime,
		"vfs.fs.discovery":  discoverFileSystems,
		"vfs.fs.get":        fileSystems,
		"vfs.fs.inode":      fileSystemInodes,
	}
}

// sysctlNumber returns a function that collects a number of the kernel, such as kern.maxfiles.
func sysctlNumber(name string) measureFunc {
	return func(context.Context, *machine, *Key) (item.Value, error) {
		data, err := unix.SysctlRaw(name)
		switch {
		case err != nil:
			return item.Value{}, fmt.Errorf("sysctl %s: %w", name, err)
		case len(data) == 4:
			return item.FromUnsigned(uint64(binary.NativeEndian.Uint32(data))), nil
		case len(data) == 8:
			return item.FromUnsigned(binary.NativeEndian.Uint64(data)), nil
		}
		return item.Value{}, fmt.Errorf("sysctl %s has %d bytes", name, len(data))
	}
}

// bootTime collects the item system.boottime, the time of the boot in seconds since 1970.
func bootTime(context.Context, *machine, *Key) (item.Value, error) {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return item.Value{}, err
	}
	return item.FromUnsigned(uint64(boot.Sec)), nil
}

// uptime collects the item system.uptime, the seconds since the machine's start.
func uptime(context.Context, *machine, *Key) (item.Value, error) {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return item.Value{}, err
	}
	return item.FromUnsigned(uint64(time.Now().Unix() - int64(boot.Sec))), nil
}

// cpuCount returns the number of CPUs.
func cpuCount() (uint32, error) { return unix.SysctlUint32("hw.ncpu") }

// cpuLoad collects the load average, the item system.cpu.load[all|percpu,avg1|avg5|avg15].
func cpuLoad(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	data, err := unix.SysctlRaw("vm.loadavg")
	if err != nil {
		return item.Value{}, err
	}
	if len(data) < 20 { // struct loadavg: three averages of 32 bits and, aligned as a long, their scale
		return item.Value{}, fmt.Errorf("vm.loadavg has %d bytes", len(data))
	}
	scale := data[12:]
	if len(data) >= 24 {
		scale = data[16:]
	}
	column, ok := map[string]int{"avg1": 0, "avg5": 1, "avg15": 2}[k.Parameter(1, "avg1")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 1, "avg1", "avg5", "avg15")
	}
	load := float64(binary.NativeEndian.Uint32(data[4*column:])) / float64(max(binary.NativeEndian.Uint32(scale), 1))
	return loadPerCPU(k, load, cpuCount)
}

// cpuNumber collects the item system.cpu.num[online|max], the number of CPUs.
func cpuNumber(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	if mode := k.Parameter(0, "online"); mode != "online" && mode != "max" {
		return item.Value{}, errUnknownMode(k, 0, "online", "max")
	}
	n, err := cpuCount()
	return item.FromUnsigned(uint64(n)), err
}

// uname collects the item system.uname, the kernel's name, release and architecture.
func uname(context.Context, *machine, *Key) (item.Value, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return item.Value{}, err
	}
	var parts []string
	for _, part := range [][]byte{u.Sysname[:], u.Nodename[:], u.Release[:], u.Version[:], u.Machine[:]} {
		parts = append(parts, strings.TrimSpace(textUntilZero(part)))
	}
	return item.FromText(strings.Join(parts, " ")), nil
}

// mounts returns the mounted file systems.
func (m *machine) mounts() (list []mount, err error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, err
	}
	all := make([]unix.Statfs_t, n+8) // some may come meanwhile
	if n, err = unix.Getfsstat(all, unix.MNT_NOWAIT); err != nil {
		return nil, err
	}
	for _, s := range all[:n] {
		options := "rw"
		if s.Flags&unix.MNT_RDONLY != 0 {
			options = "ro"
		}
		list = append(list, mount{textUntilZero(s.Mntonname[:]), textUntilZero(s.Fstypename[:]), options})
	}
	return list, nil
}

// interfaceMessages calls the function `each` for each message of a type in the kernel's list of network interfaces.
// A message has at least size bytes.
func interfaceMessages(list, kind, size int, each func(message []byte)) error {
	data, err := syscall.RouteRIB(list, 0)
	if err != nil {
		return err
	}
	for len(data) >= 4 {
		length := int(binary.NativeEndian.Uint16(data))
		if length < 4 || length > len(data) {
			return fmt.Errorf("the list of network interfaces has a message of %d bytes", length)
		}
		if int(data[3]) == kind && length >= size {
			each(data[:length])
		}
		data = data[length:]
	}
	return nil
}

// findInterface returns the counters of a network interface. found is false if this machine has no such interface.
func findInterface(name string) (t interfaceTraffic, found bool, err error) {
	counters, err := interfaceCounters()
	t, found = counters[name]
	return t, found, err
}

// networkCollisions collects the item net.if.collisions[INTERFACE], the number of collisions on a network interface.
func networkCollisions(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	t, err := interfaceOfKey(k)
	return item.FromUnsigned(t.collisions), err
}

// discoverInterfaces collects the item net.if.discovery, the network interfaces for Zabbix's low-level discovery.
func discoverInterfaces(context.Context, *machine, *Key) (item.Value, error) {
	counters, err := interfaceCounters()
	if err != nil {
		return item.Value{}, err
	}
	rows := []map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		rows = append(rows, map[string]string{"{#IFNAME}": name})
	}
	return jsonValue(rows)
}
