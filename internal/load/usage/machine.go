package usage

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Machine describes this machine. What its system does not tell is empty.
func Machine() report.Machine {
	m := report.Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if cpus, err := os.ReadFile("/proc/cpuinfo"); err == nil { // procfs reads it on Linux alone
		_, model, _ := strings.Cut(string(cpus), "model name")
		model, _, _ = strings.Cut(model, "\n")
		m.CPU = strings.Trim(model, "\t: ")
	}
	if kernel, err := proc.SysctlStrings("kernel.osrelease"); err == nil {
		m.Kernel = strings.Join(kernel, " ")
	}
	if load, err := proc.LoadAvg(); err == nil {
		m.Load = fmt.Sprintf("%.2f %.2f %.2f", load.Load1, load.Load5, load.Load15)
	}
	if memory, err := proc.Meminfo(); err == nil && memory.MemTotalBytes != nil {
		m.Memory = int64(*memory.MemTotalBytes)
	}
	return m
}

// Busy returns the CPU time of all processes and the kernel since the machine started, or zero where it is unknown.
func Busy() time.Duration {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0
	}
	c := stat.CPUTotal
	return time.Duration((c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal) * float64(time.Second))
}
