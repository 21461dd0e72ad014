//go:build !linux

package collect

import "runtime"

// machineName returns the architecture of the program: only Linux reports that of the machine.
func machineName() (string, error) { return runtime.GOARCH, nil }
