//go:build !linux || noserver

package main

import "github.com/muster-fleet/muster/internal/cli"

// serverCommands returns the commands that need the server's packages.
func serverCommands() []cli.ExtraCommand { return []cli.ExtraCommand{newAgentCommand()} }
