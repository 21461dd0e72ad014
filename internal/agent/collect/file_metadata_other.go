//go:build !linux

package collect

import "io/fs"

// fileID identifies a file independently of its name, so that a file with several names is counted once.
type fileID struct{ device, inode, links uint64 }

// fileBlocks returns a file's size instead of its space on disk. The agent counts blocks on Linux only.
func fileBlocks(info fs.FileInfo) (fileID, uint64) { return fileID{}, uint64(info.Size()) }

// fileTimes returns a file's modification time, in place of its access and change times, which need Linux.
func fileTimes(info fs.FileInfo) (access, change int64) {
	return info.ModTime().Unix(), info.ModTime().Unix()
}
