//go:build !linux

package collect

import "io/fs"

// fileID identifies a file independently of its name, so that a file with several names is counted once.
type fileID struct{ device, inode, links uint64 }

// fileBlocks returns the size of a file instead of its space on disk, because this system counts no blocks.
func fileBlocks(info fs.FileInfo) (fileID, uint64) { return fileID{}, uint64(info.Size()) }

// fileTimes returns the time of the last modification of a file, because this system records no other times of files.
func fileTimes(info fs.FileInfo) (access, change int64) {
	return info.ModTime().Unix(), info.ModTime().Unix()
}
