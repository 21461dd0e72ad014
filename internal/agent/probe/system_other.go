//go:build !linux

package probe

import (
	"errors"
	"time"
)

var errLinuxOnly = errors.New("this probe supports only Linux")

func statfs(string) (diskUsage, error)          { return diskUsage{}, errLinuxOnly }
func kernelClock() (time.Duration, bool, error) { return 0, false, errLinuxOnly }
func kernelRelease() (string, error)            { return "", errLinuxOnly }
