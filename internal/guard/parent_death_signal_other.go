//go:build unix && !linux

package guard

import "syscall"

// dieWithParent does nothing, because only Linux kernels can kill a command when its parent dies.
func dieWithParent(*syscall.SysProcAttr) {}
