package collect

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// kernelNumber returns a function that collects the first number in a kernel file such as /proc/sys/fs/file-max.
func kernelNumber(path string) measureFunc {
	return func(_ context.Context, m *machine, _ *Key) (item.Value, error) {
		text, err := m.read(path)
		if err != nil {
			return item.Value{}, err
		}
		return unsignedField(path, strings.Fields(text), 0)
	}
}

// unsignedField parses field i of a line from a /proc file as an unsigned item value
func unsignedField(path string, fields []string, i int) (item.Value, error) {
	if i >= len(fields) {
		return item.Value{}, fmt.Errorf("%s has a line with %d fields, expected more than %d", path, len(fields), i)
	}
	n, err := strconv.ParseUint(fields[i], 10, 64)
	if err != nil {
		return item.Value{}, fmt.Errorf("%s has an unexpected content: %q", path, fields[i])
	}
	return item.FromUnsigned(n), nil
}

// kernelStat returns a function that collects one counter of /proc/stat, such as "ctxt"
func kernelStat(name string) measureFunc {
	return func(_ context.Context, m *machine, _ *Key) (item.Value, error) {
		fields, err := m.fields("/proc/stat", name)
		if err != nil {
			return item.Value{}, err
		}
		return unsignedField("/proc/stat", fields, 1)
	}
}

// fields returns the fields of a file's first line that begins with the given word.
func (m *machine) fields(path, word string) ([]string, error) {
	text, err := m.read(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == word {
			return fields, nil
		}
	}
	return nil, fmt.Errorf("%s has no line %s", path, word)
}

// uname collects the item system.uname, the kernel's name, release and architecture.
func uname(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	var parts []string
	for _, name := range []string{"ostype", "hostname", "osrelease", "version"} {
		text, err := m.read("/proc/sys/kernel/" + name)
		if err != nil {
			return item.Value{}, err
		}
		parts = append(parts, strings.TrimSpace(text))
	}
	arch, err := machineArchitecture()
	return item.FromText(strings.Join(append(parts, arch), " ")), err
}

// operatingSystem collects the item system.sw.os[full|short|name], the name and version of the operating system.
func operatingSystem(_ context.Context, m *machine, k *Key) (item.Value, error) {
	path := ""
	switch k.Parameter(0, "full") {
	case "full":
		path = "/proc/version"
	case "short":
		path = "/proc/version_signature"
	case "name":
		text, err := m.read("/etc/os-release")
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return item.FromText(strings.Trim(name, `"'`)), nil
			}
		}
		if err == nil {
			err = fmt.Errorf("/etc/os-release has no PRETTY_NAME")
		}
		return item.Value{}, err
	default:
		return item.Value{}, errUnknownMode(k, 0, "full", "short", "name")
	}
	text, err := m.read(path)
	return item.FromText(strings.TrimSpace(text)), err
}

// swapTraffic returns a function that counts reads from swap (system.swap.in) or writes
// (system.swap.out[all|DEVICE,pages|count|sectors]). pages is the counter of the kernel, column the place of the
// operations in /proc/diskstats.
func swapTraffic(pages string, column int) measureFunc {
	return func(_ context.Context, m *machine, k *Key) (item.Value, error) {
		device, column := k.Parameter(0, "all"), column
		switch k.Parameter(1, "pages") {
		case "pages":
			if device != "all" {
				return item.Value{}, fmt.Errorf("%s: the kernel counts pages only for all devices together; use the type count or sectors", k.Name)
			}
			fields, err := m.fields("/proc/vmstat", pages)
			if err != nil {
				return item.Value{}, err
			}
			return unsignedField("/proc/vmstat", fields, 1)
		case "count":
		case "sectors":
			column += 2
		default:
			return item.Value{}, errUnknownMode(k, 1, "pages", "count", "sectors")
		}
		text, err := m.read("/proc/swaps")
		if err != nil {
			return item.Value{}, err
		}
		sum, found := uint64(0), device == "all"
		for line := range strings.Lines(text) {
			path, _, _ := strings.Cut(line, " ")
			name, isDevice := strings.CutPrefix(path, "/dev/")
			if !isDevice || device != "all" && strings.TrimPrefix(device, "/dev/") != name {
				continue
			}
			counters, err := m.diskCounters(name)
			if err != nil {
				return item.Value{}, err
			}
			sum, found = sum+counters[column], true
		}
		if !found {
			return item.Value{}, fmt.Errorf("%s is not a swap device of this machine; see /proc/swaps", device)
		}
		return item.FromUnsigned(sum), nil
	}
}

// usersNumber collects the item system.users.num, the number of logged-in users. It counts the logins in /run/utmp, or
// else the sessions of systemd.
func usersNumber(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	if text, err := m.read("/run/utmp"); err == nil {
		return item.FromUnsigned(countLogins([]byte(text), m.isRunning)), nil
	}
	names, err := m.readNames("/run/systemd/sessions")
	count := uint64(0)
	for _, name := range names {
		if text, err := m.read("/run/systemd/sessions/" + name); err == nil && strings.Contains(text, "\nCLASS=user\n") {
			count++
		}
	}
	if err != nil {
		return item.FromUnsigned(0), nil // nobody can log in
	}
	return item.FromUnsigned(count), nil
}

// countLogins counts the logins in a utmp file (utmp(5)) whose process still runs
func countLogins(data []byte, running func(pid uint32) bool) (count uint64) {
	const size, userProcess, user = 384, 7, 44 // bytes of a record, the type of a login, the place of the name
	for ; len(data) >= size; data = data[size:] {
		if binary.NativeEndian.Uint16(data) == userProcess && data[user] != 0 && running(binary.NativeEndian.Uint32(data[4:])) {
			count++
		}
	}
	return count
}

// isRunning reports whether a process with the given id exists.
func (m *machine) isRunning(pid uint32) bool {
	_, err := m.read(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil
}
