package loadcmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
)

// prepareCommand makes the command muster load prepare.
func prepareCommand() *cobra.Command {
	var data, db string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "prepare NAME|FILE",
		Short: "Make the nodes and checks of a run, with its server stopped",
		Long: `Makes the nodes, groups and checks of a scenario in the namespace load, in the data folder of a server that
does not run. muster load run does this by itself for the server that it starts, and through the API for
one that runs.`,
		Example: "  muster load prepare sensu-4000x40x5s --data DIR",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sc, err := scenario.Load(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("seed") {
				sc.Seed = seed
			}
			if err := os.MkdirAll(data, 0o700); err != nil {
				return fmt.Errorf("make data folder: %w", err)
			}
			fill := func(ctx context.Context, s *intent.Service) error { return simulated.Prepare(ctx, s, sc) }
			if err := subject.PrepareFolder(cmd.Context(), cmp.Or(db, filepath.Join(data, "intent.db")), fill); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d nodes with %d event states in namespace %s of the server in %s\n", sc.Nodes(""), sc.States(), simulated.Namespace, data)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "./muster-data", "the server's data folder")
	f.StringVar(&db, "intent-db", "", "the server's --intent-db, where it has one")
	f.Uint64Var(&seed, "seed", 0, "as for run")
	return cmd
}
