//go:build !unix

package handler

import "os/exec"

// killProcessGroup does nothing: the variant for systems other than Unix, where the end of the context kills only the command.
func killProcessGroup(*exec.Cmd) {}
