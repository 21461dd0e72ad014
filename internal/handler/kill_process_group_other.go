//go:build !unix

package handler

import "os/exec"

// killProcessGroup does nothing, because process groups exist on Unix only. The end of the context then kills only the
// runHandlerCommand.
func killProcessGroup(*exec.Cmd) {}
