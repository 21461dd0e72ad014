package guard

import "syscall"

// dieWithParent ends the command itself with us, also before the shell knows of it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
