//go:build !linux

package collect

import "runtime"

// machineName returns the architecture of the program.
func machineName() (string, error) { return runtime.GOARCH, nil }
