//go:build !linux

package collect

import "io/fs"

// fileID identifies a file with several names.
type fileID struct{ device, inode, links uint64 }

// fileBlocks returns the size of a file: other systems count no blocks here.
func fileBlocks(info fs.FileInfo) (fileID, uint64) { return fileID{}, uint64(info.Size()) }

// fileTimes returns the time of the last modification.
func fileTimes(info fs.FileInfo) (access, change int64) {
	return info.ModTime().Unix(), info.ModTime().Unix()
}
