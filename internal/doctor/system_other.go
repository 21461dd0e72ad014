//go:build !linux

package doctor

import (
	"errors"
	"os"
)

// fileLimits returns the limits of open files of this process.
func fileLimits() (soft, hard uint64) { return 0, 0 }

// diskFree returns the free bytes of a disk and its type of file system.
func diskFree(string) (int64, string, error) {
	return 0, "", errors.New("free disk is measured on Linux only")
}

// syncData writes the data of a file to the disk by fdatasync.
func syncData(f *os.File) error { return f.Sync() }

// clockSynchronised reports whether the kernel says that its clock is synchronised.
func clockSynchronised() (synced, known bool) { return false, false }
