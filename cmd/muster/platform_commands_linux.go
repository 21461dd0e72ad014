//go:build linux && !noserver

package main

import (
	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/app"
	"github.com/muster-fleet/muster/internal/cli"
	"github.com/muster-fleet/muster/internal/load/loadcmd"
	"github.com/muster-fleet/muster/internal/offline"
)

// platformCommands returns the muster commands for Linux, including the server and the agent.
func platformCommands() []cli.ExtraCommand {
	command := func(under string, make func() *cobra.Command) cli.ExtraCommand {
		return cli.ExtraCommand{Parent: under, Command: func(*cli.Env) *cobra.Command { return make() }}
	}
	return []cli.ExtraCommand{
		command("", app.UpCommand), command("", app.ServerCommand), newAgentCommand(), command("", loadcmd.NewCommand),
		command("auth", offline.ResetPasswordCommand), command("doctor", offline.RepairCommand), command("doctor", offline.RestoredCommand),
	}
}
