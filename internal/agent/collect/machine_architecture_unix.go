//go:build !windows

package collect

import "golang.org/x/sys/unix"

// machineArchitecture returns the architecture of the machine, as uname -m.
func machineArchitecture() (string, error) {
	var u unix.Utsname
	err := unix.Uname(&u)
	return textUntilZero(u.Machine[:]), err
}
