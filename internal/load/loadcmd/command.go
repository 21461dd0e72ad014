// Package loadcmd is `muster load`: the load tester's commands, one file each. What they
// do is in internal/load and the packages beside it.
//
// Goroutines: one that hears signals while something is played. Locks: stops.mu guards how often it was signalled; what is told under it
// takes no other lock of this package.
// Start reading at run.go, then play.go.
package loadcmd

import (
	"github.com/spf13/cobra"
)

// NewCommand is `muster load`.
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
	cmd.AddCommand(listCommand(), showCommand(), lintCommand(), newCommand(), recordCommand(), runCommand(), joinCommand(), prepareCommand(), tableCommand(), reportCommand(), judgeCommand(), compareCommand(), fromFleetCommand(), sizeCommand())
	cmd.AddCommand(checkCommand())
	return cmd
}
