//go:build !linux

package collect

import "runtime"

// machineArchitecture returns the architecture of the program (GOARCH), because only Linux tells the machine's
// architecture.
func machineArchitecture() (string, error) { return runtime.GOARCH, nil }
