//go:build !linux

package collect

import "runtime"

// machineName returns the architecture for which the program was built, because only Linux is asked for the
// machine's.
func machineName() (string, error) { return runtime.GOARCH, nil }
