//go:build !linux

package doctor

import (
	"errors"
	"os"
)

// fileLimits returns zero, because the doctor reads the limits of open files on Linux only.
func fileLimits() (soft, hard uint64) { return 0, 0 }

// diskFree returns an error, because the doctor reads the free space of a disk on Linux only.
func diskFree(string) (int64, string, error) {
	return 0, "", errors.New("free disk is measured on Linux only")
}

// syncData syncs a file to the disk with fsync, on systems without fdatasync.
func syncData(f *os.File) error { return f.Sync() }

// clockSynchronised reports that the clock's state is unknown, because the doctor reads the state on Linux only.
func clockSynchronised() (synced, known bool) { return false, false }

// deviceOf reports an unknown disk, because the doctor reads the id of a file's disk on Linux only.
func deviceOf(string) (device uint64, known bool) { return 0, false }
