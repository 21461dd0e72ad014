//go:build !linux

package probe

import (
	"errors"
	"time"
)

var errLinuxOnly = errors.New("this probe supports only Linux")

// statfs returns an error, because probes read file systems on Linux only.
func statfs(string) (diskUsage, error) { return diskUsage{}, errLinuxOnly }

// kernelClock returns an error, because only Linux has a kernel clock that the probe can read.
func kernelClock() (time.Duration, bool, error) { return 0, false, errLinuxOnly }

// kernelRelease returns an error, because the probe reads the kernel's release on Linux only.
func kernelRelease() (string, error) { return "", errLinuxOnly }
