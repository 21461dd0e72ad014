//go:build unix && !linux

package guard

import "syscall"

// dieWithParent does nothing: the variant for Unix systems other than Linux, whose kernels cannot kill a command when its parent
// dies.
func dieWithParent(*syscall.SysProcAttr) {}
