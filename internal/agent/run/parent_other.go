//go:build unix && !linux

package run

import "syscall"

// dieWithParent: only Linux can do that.
func dieWithParent(*syscall.SysProcAttr) {}
