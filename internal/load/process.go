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
	cpu time.Duration // user and system
	rss int64         // bytes
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
	return p
}

// cores is how many cores a process used since before.
func (p process) cores(before process, span time.Duration) float64 {
	if span <= 0 || before.cpu == 0 || p.cpu < before.cpu { // not there, or another process by now
		return 0
	}
	return (p.cpu - before.cpu).Seconds() / span.Seconds()
}
