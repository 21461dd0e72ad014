//go:build !unix

package guard

import (
	"log/slog"
	"os/exec"
)

// Guard guards nothing where there are no process groups. Built, not run.
type Guard struct{ Log *slog.Logger }

// Start is cmd.Start.
func (g *Guard) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Ended does nothing.
func (g *Guard) Ended(*exec.Cmd) {}

// Close does nothing.
func (g *Guard) Close() {}
