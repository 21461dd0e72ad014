package collect

import (
	"io/fs"
	"syscall"
)

// fileID identifies a file independently of its name, so that a file with several names is counted once.
type fileID struct{ device, inode, links uint64 }

// fileBlocks returns a file's size instead of its space on disk, and no identity. Windows lists folders without both.
func fileBlocks(info fs.FileInfo) (fileID, uint64) { return fileID{}, uint64(info.Size()) }

// fileTimes returns a file's last access time and, in place of its property change, its modification time. Windows lists
// folders without the change time.
func fileTimes(info fs.FileInfo) (access, change int64) {
	change = info.ModTime().Unix()
	if s, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return s.LastAccessTime.Nanoseconds() / 1e9, change
	}
	return change, change
}
