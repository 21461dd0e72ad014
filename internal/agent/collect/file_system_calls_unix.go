//go:build !windows

package collect

import "golang.org/x/sys/unix"

// statfs returns size, free space and inodes of a file system. As in df, root's reserve is neither used nor free.
func statfs(path string) (diskUsage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return diskUsage{}, err
	}
	block := float64(s.Bsize)
	return diskUsage{
		total: float64(s.Blocks) * block, free: float64(s.Bavail) * block, used: float64(s.Blocks-s.Bfree) * block,
		inodes: float64(s.Files), inodesFree: float64(s.Ffree),
	}, nil
}
