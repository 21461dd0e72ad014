//go:build linux && !noserver

package main

import (
	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/app"
	"github.com/muster-fleet/muster/internal/cli"
	"github.com/muster-fleet/muster/internal/load/loadcmd"
	"github.com/muster-fleet/muster/internal/offline"
)

// extras returns the commands that need the server's engines.
func extras() []cli.Extra {
	command := func(under string, make func() *cobra.Command) cli.Extra {
		return cli.Extra{Under: under, Command: func(*cli.Env) *cobra.Command { return make() }}
	}
	return []cli.Extra{
		command("", app.UpCommand), command("", app.ServerCommand), agentExtra(), command("", loadcmd.NewCommand),
		command("auth", offline.ResetPasswordCommand), command("doctor", offline.RepairCommand), command("doctor", offline.RestoredCommand),
	}
}
