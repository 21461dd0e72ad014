//go:build unix && !linux

package guard

import "syscall"

// dieWithParent does nothing: only Linux has Pdeathsig.
func dieWithParent(*syscall.SysProcAttr) {}
