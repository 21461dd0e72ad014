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
		Long:              "Takes resources away, all of them or none, with their events where they are checks or\nnodes. What changes more nodes than --max-affected needs --yes. Kept in the record of changes.",
		Example:           "  muster delete check disk -m \"moved to another team\"\n  muster delete check/disk handler/pager --dry-run",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeObjects(1000),
		RunE: func(c *cobra.Command, args []string) error {
			if kind, _, _ := strings.Cut(args[0], "/"); isStateWord(kind) || len(args) == 1 && kind == args[0] {
				kind, names, err := kindAndNames(c, args)
				switch {
				case err != nil:
					return err
				case len(names) == 0:
					return noName(c, kind)
				case strings.HasPrefix(strings.ToLower(kind), "ev"):
					return a.eventAction(c, "delete", names, f.message)
				}
			}
			refs, err := a.refsOf(args)
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			for i := range refs {
				if k, _ := model.KindOf(refs[i].Kind); k.Namespaced {
					refs[i].Namespace = a.ns()
				}
			}
			done, err := client.DeleteMany(c.Context(), v1.DeleteRequest{
				Resources: refs, Message: f.message, MaxAffected: f.maxAffected, DryRun: f.dryRun, Yes: f.yes,
			})
			if err != nil {
				return err
			}
			return a.printApplied(done, *f.output)
		},
	}
	f.add(c, false, true)
	return c
}

// refsOf reads KIND NAME... or KIND/NAME..., of any kinds.
func (a *app) refsOf(args []string) (refs []v1.Ref, err error) {
	first, _, slashed := strings.Cut(args[0], "/")
	if !slashed {
		args = args[1:]
	}
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		switch {
		case !slashed:
			kind, name = first, arg
		case !ok:
			return nil, model.Errorf(model.Invalid, "%q is not written as KIND/NAME", arg).WithHint("muster delete %s/%s", first, arg)
		}
		k, err := kindOf(kind)
		if err != nil {
			return nil, err
		}
		refs = append(refs, v1.Ref{Kind: k.Name, Name: name})
	}
	return refs, nil
}
