package load

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// process is what Linux says of a process; zero elsewhere.
type process struct {
	life    int           // of the same server, see odometer
	cpu     time.Duration // user and system
	rss     int64         // bytes
	reads   int64         // system calls that read, sockets included …
	writes  int64         // … and that write
	written int64         // bytes that it sent to storage, in whole pages; without what was removed before it got there
}

// userHz is the unit of times in /proc: 100 on every Linux that Go supports.
const userHz = 100

// readProcess reads /proc/<pid>; 0 is this process.
func readProcess(pid int) (p process) {
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
		p.cpu = time.Duration(user+system) * time.Second / userHz
		p.rss = pages * int64(os.Getpagesize())
	}
	io := dir + "io"
	p.reads, p.writes, p.written = number(io, "syscr"), number(io, "syscw"), number(io, "write_bytes")-number(io, "cancelled_write_bytes")
	return p
}

// same says whether p is a later look at the process of before.
func (p process) same(before process) bool { return p.life == before.life && p.since(before) }

// since says whether p counts on from before, by the same process or by one that followed it.
func (p process) since(before process) bool { return before.cpu > 0 && p.cpu >= before.cpu }

// cores is how many cores a process used since before.
func (p process) cores(before process, span time.Duration) float64 {
	if span <= 0 || !p.since(before) {
		return 0
	}
	return (p.cpu - before.cpu).Seconds() / span.Seconds()
}

// busyTime is what all processes and the kernel used of all cores since the machine
// started: what somebody else takes shows here.
func busyTime() time.Duration {
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

// field is the value of the first line "name: value" of a file.
func field(path, name string) string {
	_, value, _ := strings.Cut(line(path, name), ":")
	return strings.TrimSpace(value)
}

func number(path, name string) int64 {
	n, _ := strconv.ParseInt(field(path, name), 10, 64)
	return n
}

// line is the rest of the first line of a file that begins with start.
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
