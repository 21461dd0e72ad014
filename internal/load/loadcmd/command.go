// Package loadcmd has the commands of `muster load`, one file each. internal/load and the packages beside it do the work.
//
// Goroutines: one that receives signals during a run. Locks: stops.mu guards the number of signals; no other lock of this
// package is taken under it.
// Start reading at run.go, then play.go.
package loadcmd

import "github.com/spf13/cobra"

// NewCommand returns the command muster load.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Measure a server with thousands of real agent sessions",
		Long: `Opens real sessions of simulated agents, plays a scenario with them and compares the server's view
with what they sent. docs/load.md is the manual; bench/README.md says how the recorded results were made.`,
		Example: "  muster load list\n" +
			"  muster load run sensu-4000x40x5s --quick\n" +
			"  muster load report muster-load/FOLDER",
	}
	cmd.AddCommand(listCommand(), showCommand(), lintCommand(), newCommand(), recordCommand(), runCommand(), joinCommand(), prepareCommand(), tableCommand(),
		reportCommand(), judgeCommand(), compareCommand(), fromFleetCommand(), sizeCommand(), checkCommand())
	for _, c := range append(cmd.Commands(), cmd) {
		c.SilenceUsage, c.SilenceErrors = true, true
	}
	return cmd
}
