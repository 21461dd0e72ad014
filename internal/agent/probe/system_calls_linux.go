package probe

import (
	"time"

	"golang.org/x/sys/unix"
)

// statfs returns the size, free space and inodes of the file system at a path.
func statfs(path string) (diskUsage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return diskUsage{}, err
	}
	block := float64(s.Bsize)
	used := float64(s.Blocks-s.Bfree) * block
	avail := float64(s.Bavail) * block
	// As in df, root's reserve counts neither as used nor as free.
	return diskUsage{total: used + avail, avail: avail, used: used, inodes: float64(s.Files), inodesFree: float64(s.Ffree)}, nil
}

// kernelClock returns the kernel's estimate of the clock offset (adjtimex).
func kernelClock() (offset time.Duration, synced bool, err error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return 0, false, err
	}
	unit := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		unit = time.Nanosecond
	}
	return time.Duration(t.Offset) * unit, state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, nil
}

// kernelRelease returns the release of the running kernel, such as 6.1.0-9-amd64.
func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}
