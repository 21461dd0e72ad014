//go:build unix

package load

import "syscall"

// openFiles is the hard limit. The Go runtime raises the soft one to it at start.
func openFiles() (uint64, bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Max), true
}
