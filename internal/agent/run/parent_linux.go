package run

import "syscall"

// dieWithParent ends the command when the agent is killed: kill -9 of it leaves
// nothing running.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
