//go:build !linux

package disk

import "os"

// syncData syncs a file to the disk.
func syncData(f *os.File) error { return f.Sync() }

// allocate reserves disk space for a file by writing zeros.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
