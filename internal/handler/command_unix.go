//go:build unix

package handler

import (
	"os/exec"
	"syscall"
)

// killProcessGroup makes the end of the command's context kill its whole process group.
func killProcessGroup(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
