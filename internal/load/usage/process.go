package usage

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

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
	dir := "/proc/self/"
	if pid > 0 {
		dir = "/proc/" + strconv.Itoa(pid) + "/"
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return p
	}
	// The name in brackets may hold anything: fields are counted after its end.
	rest := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(rest) > 21 {
		user, _ := strconv.ParseInt(rest[11], 10, 64)
		system, _ := strconv.ParseInt(rest[12], 10, 64)
		pages, _ := strconv.ParseInt(rest[21], 10, 64)
		p.CPU = time.Duration(user+system) * time.Second / userHz
		p.RSS = pages * int64(os.Getpagesize())
	}
	io := dir + "io"
	p.Reads, p.Writes, p.Written = number(io, "syscr"), number(io, "syscw"), number(io, "write_bytes")-number(io, "cancelled_write_bytes")
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

// Busy returns the CPU time of all processes and the kernel since the machine started.
func Busy() time.Duration {
	f := strings.Fields(line("/proc/stat", "cpu "))
	var busy int64
	for i, text := range f { // user nice system idle iowait irq softirq steal …
		if i != 3 && i != 4 && i < 8 {
			n, _ := strconv.ParseInt(text, 10, 64)
			busy += n
		}
	}
	return time.Duration(busy) * time.Second / userHz
}

// field returns the value of the first line "name: value" of a file.
func field(path, name string) string {
	_, value, _ := strings.Cut(line(path, name), ":")
	return strings.TrimSpace(value)
}

// number returns a number in a file of /proc, by the name in front of it.
func number(path, name string) int64 {
	n, _ := strconv.ParseInt(field(path, name), 10, 64)
	return n
}

// line returns the rest of the first line of a file that begins with start.
func line(path, start string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, start); ok {
			return rest
		}
	}
	return ""
}
