package collect

import "golang.org/x/sys/unix"

// machineName returns the architecture of the machine, as uname -m.
func machineName() (string, error) {
	var u unix.Utsname
	err := unix.Uname(&u)
	return textUntilZero(u.Machine[:]), err
}
