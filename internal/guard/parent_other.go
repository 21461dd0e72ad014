//go:build unix && !linux

package guard

import "syscall"

// dieWithParent: only Linux can do that.
func dieWithParent(*syscall.SysProcAttr) {}
