//go:build !linux

package collect

import "errors"

// statfs returns an error, because the agent measures file systems on Linux only.
func statfs(string) (diskUsage, error) {
	return diskUsage{}, errors.New("the agent measures file systems on Linux only")
}
