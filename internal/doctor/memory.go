package doctor

import (
	"path"
	"strconv"
	"strings"
)

// memory is the smaller of what the kernel could give and what the control groups of
// this process, from its own up to the root, still allow.
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
			used, told := m.number(path.Join(root, at, usage))
			if limited && told {
				available = min(available, max(most-used, 0))
			}
			if at == "/" {
				break
			}
		}
	}
	return available, known
}
