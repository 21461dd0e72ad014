//go:build !linux

package collect

import "io/fs"

// fileID identifies a file independently of its name, so that a file with several names is counted once.
type fileID struct{ device, inode, links uint64 }

// fileBlocks returns the size of a file instead of its space on disk, because the agent counts blocks on Linux only.
func fileBlocks(info fs.FileInfo) (fileID, uint64) { return fileID{}, uint64(info.Size()) }

// fileTimes returns the time of a file's last modification in place of both times: the variant for systems other than Linux, where
// the agent reads no other times.
func fileTimes(info fs.FileInfo) (access, change int64) {
	return info.ModTime().Unix(), info.ModTime().Unix()
}
