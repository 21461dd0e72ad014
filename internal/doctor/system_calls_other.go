//go:build !linux

package doctor

import (
	"errors"
	"os"
)

// fileLimits returns zero limits: the variant for systems other than Linux, whose limits are unknown.
func fileLimits() (soft, hard uint64) { return 0, 0 }

// diskFree returns an error: the variant for systems other than Linux, because the doctor measures free disk on Linux only.
func diskFree(string) (int64, string, error) {
	return 0, "", errors.New("free disk is measured on Linux only")
}

// syncData syncs a file to the disk (this system has no fdatasync).
func syncData(f *os.File) error { return f.Sync() }

// clockSynchronised reports that the state of the clock is unknown: the variant for systems other than Linux, because the doctor asks
// only Linux for it.
func clockSynchronised() (synced, known bool) { return false, false }

// deviceOf returns false: the variant for systems other than Linux, because the doctor reads the id of a file's disk on Linux only.
func deviceOf(string) (device uint64, known bool) { return 0, false }
