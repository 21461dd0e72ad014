package agent

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bootMs returns a function that reads the milliseconds since boot. A change of the wall clock does not affect them.
func bootMs() func() uint64 {
	return func() uint64 {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			panic("BUG: CLOCK_BOOTTIME cannot be read: " + err.Error())
		}
		return uint64(t.Sec)*1000 + uint64(t.Nsec)/1e6
	}
}

// bootID returns an id that changes with each boot. The clock of bootMs then starts at zero again.
func bootID() string { return firstLineOfFile("/proc/sys/kernel/random/boot_id") }

// residentBytes returns the resident memory of the agent's process in bytes.
func residentBytes() uint64 {
	fields := strings.Fields(firstLineOfFile("/proc/self/statm"))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}
