//go:build !unix

package handler

import "os/exec"

// killProcessGroup does nothing: only Unix has process groups.
func killProcessGroup(*exec.Cmd) {}
