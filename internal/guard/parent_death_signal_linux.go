package guard

import "syscall"

// dieWithParent makes the kernel kill the command when Muster, its parent process, dies. This works even before
// the guarding shell has received the process group.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
