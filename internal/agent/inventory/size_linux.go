package inventory

import "golang.org/x/sys/unix"

// fileSystemSize returns the bytes of a mounted file system; zero if they are unknown.
func fileSystemSize(path string) uint64 {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return 0
	}
	return s.Blocks * uint64(s.Bsize)
}
