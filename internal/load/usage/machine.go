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

// Process holds what Linux tells about a process; zero on other systems.
type Process struct {
	Life    int           // of the same server, see odometer
	CPU     time.Duration // user and system
	RSS     int64         // bytes
	Reads   int64         // system calls that read, sockets included …
	Writes  int64         // … and that write
	Written int64         // bytes that it sent to storage, in whole pages; without what was removed before it got there
}

// userHz is the unit of times in /proc: 100 on every Linux that Go supports.
const userHz = 100

// OfProcess reads /proc/<pid>; 0 is this process.
func OfProcess(pid int) (p Process) {
	if pid == 0 {
		pid = os.Getpid()
	}
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return p
	}
	if stat, err := proc.Stat(); err == nil {
		p.CPU = time.Duration(stat.UTime+stat.STime) * time.Second / userHz
		p.RSS = int64(stat.ResidentMemory())
	}
	if io, err := proc.IO(); err == nil {
		p.Reads, p.Writes, p.Written = int64(io.SyscR), int64(io.SyscW), int64(io.WriteBytes)-io.CancelledWriteBytes
	}
	return p
}

// Same reports whether p is a later reading of the same process.
func (p Process) Same(before Process) bool { return p.Life == before.Life && p.Since(before) }

// Since reports whether p continues before, in the same process or in a later one.
func (p Process) Since(before Process) bool { return before.CPU > 0 && p.CPU >= before.CPU }

// Cores returns the cores that a process used since before.
func (p Process) Cores(before Process, span time.Duration) float64 {
	if span <= 0 || !p.Since(before) {
		return 0
	}
	return (p.CPU - before.CPU).Seconds() / span.Seconds()
}
