//go:build !unix

package guard

import (
	"log/slog"
	"os/exec"
)

// Guard guards nothing: other systems have no process groups. Built, not run.
type Guard struct{ Log *slog.Logger }

// Start calls cmd.Start.
func (g *Guard) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Release does nothing.
func (g *Guard) Release(*exec.Cmd) {}

// Close does nothing.
func (g *Guard) Close() {}
