//go:build !linux

package doctor

import (
	"errors"
	"os"
)

// fileLimits returns zero limits, which mean unknown.
func fileLimits() (soft, hard uint64) { return 0, 0 }

// diskFree returns the free bytes of a disk and its type of file system.
func diskFree(string) (int64, string, error) {
	return 0, "", errors.New("free disk is measured on Linux only")
}

// syncData syncs a file to the disk.
func syncData(f *os.File) error { return f.Sync() }

// clockSynchronised returns unknown: the state of the clock is read on Linux only.
func clockSynchronised() (synced, known bool) { return false, false }

// deviceOf returns the id of the disk that has a file; other systems than Linux return false.
func deviceOf(string) (device uint64, known bool) { return 0, false }
