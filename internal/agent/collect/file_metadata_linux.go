package collect

import (
	"io/fs"
	"syscall"
)

// fileID identifies a file independently of its name, so that a file with several names is counted once.
type fileID struct{ device, inode, links uint64 }

// fileBlocks returns the identity of a file and its space on disk in bytes.
func fileBlocks(info fs.FileInfo) (fileID, uint64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 0
	}
	return fileID{uint64(s.Dev), s.Ino, uint64(s.Nlink)}, uint64(s.Blocks) * 512
}

// fileTimes returns the times of the last access and of the last change of a file's properties, in seconds since 1970.
func fileTimes(info fs.FileInfo) (access, change int64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int64(s.Atim.Sec), int64(s.Ctim.Sec)
}
