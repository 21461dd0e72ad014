package cli

import (
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) deleteCmd() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:               "delete KIND NAME...",
		Short:             "Take resources away",
		Long:              "Takes resources away, with their events where they are checks or nodes. What that changes\non more nodes than --max-affected needs --yes. Kept in the record of changes.",
		Example:           "  muster delete check disk -m \"moved to another team\"",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeObjects(1000),
		RunE: func(c *cobra.Command, args []string) error {
			if kind, name, ok := strings.Cut(args[0], "/"); ok && len(args) == 1 {
				args = []string{kind, name}
			}
			if len(args) == 1 {
				return model.Errorf(model.Invalid, "the name is missing").WithHint("muster delete %s NAME", args[0])
			}
			switch strings.ToLower(args[0]) {
			case "event", "events", "ev":
				return a.eventAction(c, "delete", args[1:], f.message)
			}
			k, err := kindOf(args[0])
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			all := v1.Applied{DryRun: f.dryRun}
			for _, name := range args[1:] {
				done, err := client.Delete(c.Context(), k, a.ns(), name, "", f.message, f.maxAffected, f.dryRun, f.yes)
				if err != nil {
					if perr := a.printApplied(all, *f.output); perr != nil {
						return perr
					}
					return err
				}
				all.Revision = done.Revision
				all.Affected += done.Affected
				all.Outcomes = append(all.Outcomes, done.Outcomes...)
			}
			return a.printApplied(all, *f.output)
		},
	}
	f.add(c, false, true)
	return c
}
