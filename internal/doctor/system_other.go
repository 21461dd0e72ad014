//go:build !linux

package doctor

import (
	"errors"
	"os"
)

func fileLimits() (soft, hard uint64) { return 0, 0 }

func diskFree(string) (int64, string, error) {
	return 0, "", errors.New("free disk is measured on Linux only")
}

func datasync(f *os.File) error { return f.Sync() }

func clockSynchronised() (synced, known bool) { return false, false }
