package doctor

import (
	"path"
	"strconv"
	"strings"
)

// memory returns the available bytes: the kernel's, or the rest that the control groups of this process
// allow, from its own up to the root, if that is less.
func (m machine) memory() (available int64, known bool) {
	data, err := m.read("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			available = kb << 10
		}
	}
	known = available > 0
	groups, _ := m.read("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// ID:CONTROLLERS:PATH; version 2 has 0 and no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, limit, usage := "/sys/fs/cgroup", "memory.max", "memory.current"
		switch {
		case len(parts) != 3:
			continue
		case parts[1] == "memory":
			root, limit, usage = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
		case parts[1] != "":
			continue
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			most, limited := m.number(path.Join(root, at, limit))
			used, known := m.number(path.Join(root, at, usage))
			if limited && known {
				available = min(available, max(most-used, 0))
			}
			if at == "/" {
				break
			}
		}
	}
	return available, known
}
