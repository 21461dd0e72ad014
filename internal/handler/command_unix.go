//go:build unix

package handler

import (
	"os/exec"
	"syscall"
)

// killProcessGroup kills the command with all processes of its process group.
func killProcessGroup(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
