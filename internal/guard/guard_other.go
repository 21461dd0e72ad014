//go:build !unix

package guard

import (
	"log/slog"
	"os/exec"
)

// Guard starts commands without guarding them: systems other than Unix have no process groups. This file is only built.
type Guard struct{ Log *slog.Logger }

// Start calls cmd.Start.
func (g *Guard) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Release does nothing, because commands are not guarded on this system.
func (g *Guard) Release(*exec.Cmd) {}

// Close does nothing, because commands are not guarded on this system.
func (g *Guard) Close() {}
