package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/agent/agentcmd"
	"github.com/muster-fleet/muster/internal/cli"
)

// agentExtra is `muster agent`: muster-agent, the same code and the same flags.
func agentExtra() cli.Extra {
	return cli.Extra{Command: func(*cli.Env) *cobra.Command {
		return &cobra.Command{
			Use: "agent", Short: "Run an agent on this machine; the same as muster-agent",
			Long:               agentcmd.Usage(),
			Example:            "  muster agent --token @/etc/muster/join-token\n  muster agent --probe disk warn=20%",
			DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				if code := agentcmd.Main(cmd.Context(), args, os.Getenv, cmd.OutOrStdout(), cmd.ErrOrStderr()); code != 0 {
					os.Exit(code)
				}
				return nil
			},
		}
	}}
}
