//go:build !linux

package doctor

import (
	"errors"
	"os"
)

// fileLimits returns zero limits: they are unknown here.
func fileLimits() (soft, hard uint64) { return 0, 0 }

// diskFree returns the free bytes of a disk and the type of its file system.
func diskFree(string) (int64, string, error) {
	return 0, "", errors.New("free disk is measured on Linux only")
}

// syncData syncs a file to the disk (this system has no fdatasync).
func syncData(f *os.File) error { return f.Sync() }

// clockSynchronised reports that the state of the clock is unknown, because only Linux is asked for it.
func clockSynchronised() (synced, known bool) { return false, false }

// deviceOf returns false: only Linux has the id of a file's disk.
func deviceOf(string) (device uint64, known bool) { return 0, false }
