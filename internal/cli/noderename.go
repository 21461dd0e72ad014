package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) nodeRename() *cobra.Command {
	var f applyFlags
	node := kind.Node().KindInfo
	c := &cobra.Command{
		Use:   "rename OLD NEW",
		Short: "Give a node another name; it keeps its events and history",
		Long: "Gives a node another name. It stays the same node: events, problems, history and properties\nstay, and its agent goes on. Groups, checks and properties that name it are changed in the\n" +
			"same transaction, and printed: what you keep in git is to be changed there, too. Conditions\nover node.name stay as they are; a warning names them.",
		Example: "  muster node rename web01 shop01 -m \"moved to the shop\"\n  muster node rename web01 shop01 --dry-run",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.completeNames(node),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			done, err := client.Nodes.Rename(c.Context(), a.ns(), args[0], v1.NodeRename{
				To: args[1], DryRun: f.dryRun, Message: f.message, MaxAffected: f.maxAffected, Yes: f.yes,
			})
			if err != nil {
				return err
			}
			if err := a.printApplied(done, *f.output); err != nil || f.output.machine() || done.DryRun {
				return err
			}
			if n := len(done.Outcomes) - 1; n > 0 {
				fmt.Fprintf(a.Stdout, "\n%s named %s and %s changed with it. If you keep %s in files, change them there too: the next apply\nwould bring the old name back. muster get KIND NAME -o yaml prints what is declared now.\n",
					model.CountNoun(n, "resource"), clean(args[0], false), wereWas(n), themIt(n))
			}
			return nil
		},
	}
	f.add(c, false, true)
	return c
}

func wereWas(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func themIt(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
