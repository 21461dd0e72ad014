// Command muster is the whole of Muster in one binary: the command line and, on
// Linux, the server.
package main

//go:generate go test . -run TestReferencePageIsUpToDate -update

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	_ "time/tzdata" // cron in any zone, also where the machine has no zone files

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/agent/agentcmd"
	"github.com/muster-fleet/muster/internal/cli"
)

// main runs the program muster and exits with the exit code of the command.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := cli.Main(ctx, cli.NewProcessEnv(), platformCommands()...)
	stop()
	os.Exit(code)
}

// newAgentCommand returns the command "muster agent", which runs the agent inside the program muster. It is the same
// program as muster-agent, with the same flags.
func newAgentCommand() cli.ExtraCommand {
	return cli.ExtraCommand{Command: func(*cli.Env) *cobra.Command {
		return &cobra.Command{
			Use: "agent", Short: "Run an agent on this machine; the same as muster-agent",
			Long:               agentcmd.Usage(),
			Example:            "  muster agent join mj1.… --service\n  muster agent\n  muster agent --probe disk warn=20%",
			DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				if slices.Equal(args, []string{"--help"}) || slices.Equal(args, []string{"-h"}) {
					return cmd.Help() // wrapped at the width of the terminal
				}
				env := agentcmd.Env{Program: "muster agent", Getenv: os.Getenv, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
				if code := agentcmd.Main(cmd.Context(), args, env); code != 0 {
					os.Exit(code)
				}
				return nil
			},
		}
	}}
}
