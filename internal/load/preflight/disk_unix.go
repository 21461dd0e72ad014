//go:build linux || darwin || freebsd

package preflight

import (
	"os"
	"path/filepath"
	"syscall"
)

// freeDisk returns the free bytes of a folder, or of its first existing parent.
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
