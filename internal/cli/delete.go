package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// deleteFlags holds the flags that select the resources to delete. Without them, the arguments name the resources.
type deleteFlags struct {
	changeFlags
	resourceSelection
	files   []string
	cascade bool
}

// registerFlags adds the flags of muster delete.
func (f *deleteFlags) registerFlags(flags *pflag.FlagSet) {
	f.changeFlags.registerFlags(flags)
	registerFileFlag(flags, &f.files)
	f.resourceSelection.registerFlags(flags)
	flags.BoolVar(&f.cascade, "cascade", false, "namespaces: delete everything in them, too")
}

// validate returns an error for combinations of flags and arguments that contradict each other.
func (f *deleteFlags) validate(c *commandCall) error {
	path := c.cmd.CommandPath()
	switch {
	case len(f.files) > 0 && (len(c.args) > 0 || !f.selectsByName() || f.cascade):
		return model.Errorf(model.Invalid, "-f cannot be combined with names, -l, --all or --cascade").WithHint("%s -f %s", path, f.files[0])
	case len(f.files) > 0:
		return nil
	case len(c.args) == 0:
		return model.Errorf(model.Invalid, "the resources to delete are missing").WithHint("%s KIND NAME, or %s -f FILE", path, path)
	case !f.selectsByName() && isServerStateList(c.args[0]):
		return model.Errorf(model.Invalid, "events can be deleted only by name").WithHint("%s %s NODE/CHECK. Many at once: muster event delete --help", path, c.args[0])
	}
	return f.resourceSelection.validate(c, c.args)
}

// deleteCommand makes the command muster delete.
func deleteCommand(s *commandLine) *cobra.Command {
	f := &deleteFlags{}
	return s.buildCommand(command{
		use: "delete KIND NAME... | KIND -l LABELS | KIND --all | -f FILE...", short: "Delete resources, all of them or none",
		complete: s.completeObjects(1000), flags: f.registerFlags, check: f.validate,
		run: func(c *commandCall) error {
			if names, err := eventsToDelete(c, f); err != nil {
				return err
			} else if len(names) > 0 {
				return actOnEvents(c, names, "deleted", func(n eventName) error {
					return c.api.Events.Delete(c.ctx, n.namespace, n.node, n.check, c.changeOptions(&f.changeFlags).Message)
				})
			}
			refs, err := f.resourcesToDelete(c)
			if err != nil {
				return err
			}
			if len(refs) == 0 {
				return f.printNothingSelected(c, c.args[0], "delete")
			}
			return c.printApplyResult(c.api.Resources.DeleteMany(c.ctx, v1.DeleteRequest{ChangeOptions: c.changeOptions(&f.changeFlags), Resources: refs}))
		},
	})
}

// eventsToDelete returns the event names in the arguments of muster delete, or none if the arguments name
// resources. For a command that deletes resources, it returns none.
func eventsToDelete(c *commandCall, f *deleteFlags) ([]string, error) {
	if len(f.files) > 0 || !f.selectsByName() {
		return nil, nil
	}
	word, _, _ := strings.Cut(c.args[0], "/")
	if !isServerStateList(word) && (len(c.args) > 1 || word != c.args[0]) {
		return nil, nil
	}
	word, names, err := c.kindAndNames(c.cmd, c.args)
	if err != nil {
		return nil, err
	}
	list, _ := findServerStateList(word)
	switch {
	case len(names) == 0:
		return nil, c.missingNameError(c.cmd, word)
	case list.name != "events":
		return nil, nil
	case f.DryRun:
		return nil, model.Errorf(model.Invalid, "--dry-run does not apply to events").WithHint("see the event: muster describe event %s", names[0])
	}
	return names, nil
}

// resourcesToDelete returns references to the resources that flags or arguments choose.
func (f *deleteFlags) resourcesToDelete(c *commandCall) (refs []v1.Ref, err error) {
	if len(f.files) > 0 {
		docs, err := c.readFilesWithResources(f.files)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			refs = append(refs, refToResource(&d.located.Resource))
		}
	} else if refs, err = f.readRefs(c, c.args); err != nil {
		return nil, err
	}
	for i := range refs {
		if k, _ := c.Kinds.Lookup(refs[i].Kind); k.Namespaced {
			refs[i].Namespace = cmp.Or(refs[i].Namespace, c.objectNamespace())
		}
	}
	if !f.cascade {
		return refs, nil
	}
	for _, ref := range refs {
		if ref.Kind != "Namespace" {
			return nil, model.Errorf(model.Invalid, "--cascade applies only to namespaces, not to a %s", strings.ToLower(ref.Kind)).WithHint("leave --cascade out")
		}
		for _, k := range c.Kinds.Kinds() {
			if !k.Namespaced {
				continue
			}
			within, err := c.listResources(c.ctx, c.api, k.KindInfo, ref.Name, "")
			if err != nil {
				return nil, err
			}
			refs = append(refs, refsToResources(within)...)
		}
	}
	return refs, nil
}
