//go:build !linux || noserver

package main

import "github.com/muster-fleet/muster/internal/cli"

// serverCommands returns "muster agent", the only additional command of muster outside Linux.
func serverCommands() []cli.ExtraCommand { return []cli.ExtraCommand{newAgentCommand()} }
