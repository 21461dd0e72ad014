package inventory

import "golang.org/x/sys/unix"

// fileSystemSize returns the size of a mounted file system in bytes. The size is zero if it is unknown.
func fileSystemSize(path string) uint64 {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return 0
	}
	return s.Blocks * uint64(s.Bsize)
}
