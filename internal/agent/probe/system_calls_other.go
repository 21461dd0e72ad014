//go:build !linux

package probe

import (
	"errors"
	"time"
)

var errLinuxOnly = errors.New("this probe supports only Linux")

// statfs returns an error: file systems are read on Linux only.
func statfs(string) (diskUsage, error) { return diskUsage{}, errLinuxOnly }

// kernelClock returns an error: the kernel's clock is read on Linux only.
func kernelClock() (time.Duration, bool, error) { return 0, false, errLinuxOnly }

// kernelRelease returns an error: the kernel's release is read on Linux only.
func kernelRelease() (string, error) { return "", errLinuxOnly }
