package loadcmd

import (
	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/fleet"
	"github.com/muster-fleet/muster/internal/model"
)

// fromFleetCommand makes the command muster load from-fleet.
func fromFleetCommand() *cobra.Command {
	var all bool
	var classes int
	cmd := &cobra.Command{
		Use:   "from-fleet",
		Short: "Write a scenario with the shape of a live installation, and nothing that names it",
		Long: `Asks the server that you are logged in to (muster login; a viewer's rights are enough) how many nodes
hold which shape of checks, how often those run and how much they say, what states they are in and how
often these change. It writes that as a scenario for muster load size and muster load run. Names are
numbers; outputs, labels and commands are not in it.

It reads page by page and rests after each for as long as the answer took: 15,000 nodes with 40 checks
each take some minutes, in which the server works on as before.`,
		Example: "  muster load from-fleet -A >mine.yaml\n  muster load lint mine.yaml\n  muster load size mine.yaml",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.BoolVarP(&all, "all-namespaces", "A", false, "the nodes of all namespaces")
	f.IntVar(&classes, "classes", fleet.DefaultClasses, "classes at most: nodes that differ more than they need to are put together")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		say := sayTo(cmd.ErrOrStderr())
		if classes < 1 || classes > 1000 {
			return model.Errorf(model.Invalid, "--classes %d: want 1 to 1000", classes)
		}
		api, namespace, err := login(cmd, flagValue(cmd, "server"))
		if err != nil {
			return err
		}
		if all {
			namespace = ""
		}
		read, err := fleet.Read(cmd.Context(), api, namespace, say)
		if err != nil {
			return err
		}
		text, sc, err := read.YAML(classes)
		if err != nil {
			return err
		}
		say("%s", sc.Brief())
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}
