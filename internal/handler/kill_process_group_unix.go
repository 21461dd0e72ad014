//go:build unix

package handler

import (
	"os/exec"
	"syscall"
)

// killProcessGroup makes a command's whole process group die when the command's context ends.
func killProcessGroup(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
