//go:build unix

package react

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the command a process group, and kills all of it at time-out.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
