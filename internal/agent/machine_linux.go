package agent

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bootMs returns a function that returns milliseconds on a clock that a change of the wall clock does not affect.
func bootMs() func() uint64 {
	return func() uint64 {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			panic("BUG: CLOCK_BOOTTIME cannot be read: " + err.Error())
		}
		return uint64(t.Sec)*1000 + uint64(t.Nsec)/1e6
	}
}

// bootID returns an id that changes whenever the clock of bootMs starts at zero again, such as after a reboot.
func bootID() string { return firstLineOfFile("/proc/sys/kernel/random/boot_id") }

// residentBytes returns the resident memory of this process in bytes.
func residentBytes() uint64 {
	fields := strings.Fields(firstLineOfFile("/proc/self/statm"))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}
