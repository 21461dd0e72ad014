//go:build !unix

package guard

import (
	"log/slog"
	"os/exec"
)

// Guard starts commands without guarding, because only Unix systems have process groups. This file is only built.
type Guard struct{ Log *slog.Logger }

// Start starts a command as cmd.Start does, because commands are guarded on Unix only.
func (g *Guard) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Release does nothing, because commands are guarded on Unix only.
func (g *Guard) Release(*exec.Cmd) {}

// Close does nothing, because commands are not guarded on systems other than Unix.
func (g *Guard) Close() {}
