//go:build unix

package handler

import (
	"os/exec"
	"syscall"
)

// killProcessGroup kills the command's whole process group at its time-out.
func killProcessGroup(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
