package guard

import "syscall"

// dieWithParent makes the kernel kill the command when this process dies, also before the shell knows its group.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
