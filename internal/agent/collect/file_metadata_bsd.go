//go:build darwin || freebsd

package collect

import (
	"io/fs"
	"syscall"
)

// fileID identifies a file independently of its name, so that a file with several names is counted once.
type fileID struct{ device, inode, links uint64 }

// fileBlocks returns the device and inode of a file, and the bytes that its disk blocks take.
func fileBlocks(info fs.FileInfo) (fileID, uint64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 0
	}
	return fileID{uint64(s.Dev), s.Ino, uint64(s.Nlink)}, uint64(s.Blocks) * 512
}

// fileTimes returns a file's last access time and last property change, in seconds since 1970.
func fileTimes(info fs.FileInfo) (access, change int64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int64(s.Atimespec.Sec), int64(s.Ctimespec.Sec)
}
