package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/agent/agentcmd"
	"github.com/muster-fleet/muster/internal/cli"
)

// agentExtra returns muster agent, which has the code and flags of muster-agent.
func agentExtra() cli.Extra {
	return cli.Extra{Command: func(*cli.Env) *cobra.Command {
		return &cobra.Command{
			Use: "agent", Short: "Run an agent on this machine; the same as muster-agent",
			Long:               agentcmd.Usage(),
			Example:            "  muster agent join mj1.… --service\n  muster agent\n  muster agent --probe disk warn=20%",
			DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				env := agentcmd.Env{Program: "muster agent", Getenv: os.Getenv, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
				if code := agentcmd.Main(cmd.Context(), args, env); code != 0 {
					os.Exit(code)
				}
				return nil
			},
		}
	}}
}
