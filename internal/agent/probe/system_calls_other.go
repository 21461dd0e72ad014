//go:build !linux

package probe

import (
	"errors"
	"time"
)

var errLinuxOnly = errors.New("this probe supports only Linux")

// statfs returns an error: the variant for systems other than Linux, because probes read file systems on Linux only.
func statfs(string) (diskUsage, error) { return diskUsage{}, errLinuxOnly }

// kernelClock returns an error: the variant for systems other than Linux, because the probe asks only Linux for its clock.
func kernelClock() (time.Duration, bool, error) { return 0, false, errLinuxOnly }

// kernelRelease returns an error: the variant for systems other than Linux, because the probe asks only Linux for its release.
func kernelRelease() (string, error) { return "", errLinuxOnly }
