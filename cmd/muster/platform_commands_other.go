//go:build !linux || noserver

package main

import "github.com/muster-fleet/muster/internal/cli"

// platformCommands returns "muster agent", the only additional command of muster outside Linux.
func platformCommands() []cli.ExtraCommand { return []cli.ExtraCommand{newAgentCommand()} }
