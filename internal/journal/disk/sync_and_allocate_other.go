//go:build !linux

package disk

import "os"

// syncData syncs a file with its metadata to the disk, on systems other than Linux. Those systems have no fdatasync.
func syncData(f *os.File) error { return f.Sync() }

// allocate reserves disk space for a file by writing zeros, on systems other than Linux. Those systems have no
// fallocate.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
