//go:build !linux

package collect

import "runtime"

// machineArchitecture returns the architecture of the program (GOARCH): the variant for systems other than
// Linux, because only Linux tells the architecture of the machine.
func machineArchitecture() (string, error) { return runtime.GOARCH, nil }
