package cli

import (
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) deleteCmd() *cobra.Command {
	var f applyFlags
	var w which
	c := &cobra.Command{
		Use:   "delete KIND NAME... | KIND -l LABELS | KIND --all | -f FILE...",
		Short: "Take resources away",
		Long: "Takes resources away, all of them or none, with their events where they are checks or\nnodes: by name, by labels (-l), all of a kind in a namespace (--all), or those of files (-f).\n" +
			"A namespace goes when it is empty, or with all that is in it (--cascade). What changes more\nnodes than --max-affected needs --yes. Kept in the record of changes.",
		Example: "  muster delete check disk -m \"moved to another team\"\n  muster delete check/disk handler/pager --dry-run\n" +
			"  muster delete nodes -n demo --all --yes\n  muster delete nodes -l env=test --dry-run\n  muster delete -f disk.yaml\n  muster delete namespace demo --cascade --yes",
		ValidArgsFunction: a.completeObjects(1000),
		RunE: func(c *cobra.Command, args []string) error {
			w.files = f.files
			if err := w.check(c, args); err != nil {
				return err
			}
			if len(args) > 0 && w.byName() {
				kind, _, _ := strings.Cut(args[0], "/")
				if isStateWord(kind) || len(args) == 1 && kind == args[0] {
					kind, names, err := a.kindAndNames(c, args)
					switch {
					case err != nil:
						return err
					case len(names) == 0:
						return a.noName(c, kind)
					case strings.HasPrefix(strings.ToLower(kind), "ev") && f.dryRun:
						return model.Errorf(model.Invalid, "events are not declared: there is no dry run").WithHint("look at it: muster describe event %s", names[0])
					case strings.HasPrefix(strings.ToLower(kind), "ev"):
						note := a.message(&f)
						return a.eventAction(c, names, a.deleteEvent(&note))
					}
				}
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			refs, err := a.refs(c.Context(), client, &w, args)
			if err != nil {
				return err
			}
			if len(refs) == 0 {
				return a.nothingToDelete(&w, args[0], *f.output)
			}
			done, err := client.Resources.DeleteMany(c.Context(), v1.DeleteRequest{
				Resources: refs, Message: a.message(&f), MaxAffected: f.maxAffected, DryRun: f.dryRun, Yes: f.yes,
			})
			if err != nil {
				return err
			}
			return a.printApplied(done, *f.output)
		},
	}
	f.add(c, true, true)
	c.Flags().StringVarP(&w.selector, "selector", "l", "", "those of the kind with these labels: env=test,tier!=db,owner,!old")
	c.Flags().BoolVar(&w.all, "all", false, "all of the kind in the namespace")
	c.Flags().BoolVar(&w.cascade, "cascade", false, "namespaces: with all that is in them")
	return c
}
