package usage

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Machine describes this machine.
func Machine() report.Machine {
	m := report.Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), CPU: field("/proc/cpuinfo", "model name")}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(kernel))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	kb, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	m.Memory = kb << 10
	return m
}
