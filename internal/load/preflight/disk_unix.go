//go:build linux || darwin || freebsd

package preflight

import (
	"os"
	"path/filepath"
	"syscall"
)

// freeDisk is how much may be written to a folder, or to where it would be made.
func freeDisk(dir string) (int64, bool) {
	for dir != "" {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
