package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// deleteFlags holds the flags that choose the resources to delete; without any of them, arguments name the
// resources.
type deleteFlags struct {
	changeFlags
	files        []string
	selector     string
	all, cascade bool
}

// registerFlags adds the flags of muster delete.
func (f *deleteFlags) registerFlags(flags *pflag.FlagSet) {
	f.changeFlags.registerFlags(flags)
	registerFileFlag(flags, &f.files)
	flags.StringVarP(&f.selector, "selector", "l", "", "resources of the kind with these labels: env=test,tier!=db,owner,!old")
	flags.BoolVar(&f.all, "all", false, "all resources of the kind in the namespace")
	flags.BoolVar(&f.cascade, "cascade", false, "namespaces: delete everything in them, too")
}

// selectsByName reports whether arguments, and no flags, name the resources to delete.
func (f *deleteFlags) selectsByName() bool { return len(f.files) == 0 && f.selector == "" && !f.all }

// validate refuses ambiguous combinations of flags and arguments.
func (f *deleteFlags) validate(c *commandCall) error {
	path, word := c.cmd.CommandPath(), "KIND"
	if len(c.args) > 0 {
		word, _, _ = strings.Cut(c.args[0], "/")
	}
	switch {
	case len(f.files) > 0 && (len(c.args) > 0 || f.selector != "" || f.all || f.cascade):
		return model.Errorf(model.Invalid, "-f excludes names, -l, --all and --cascade").WithHint("%s -f %s", path, f.files[0])
	case len(f.files) > 0:
		return nil
	case len(c.args) == 0:
		return model.Errorf(model.Invalid, "the resources to delete are missing").WithHint("%s KIND NAME, or %s -f FILE", path, path)
	case f.all && f.selector != "":
		return model.Errorf(model.Invalid, "--all and -l exclude each other").WithHint("%s %s -l %s", path, word, f.selector)
	case f.selectsByName():
		return nil
	case len(c.args) > 1 || strings.Contains(c.args[0], "/"):
		return model.Errorf(model.Invalid, "resource names exclude --all and -l").WithHint("%s %s --all", path, word)
	case isServerStateList(word):
		return model.Errorf(model.Invalid, "events can be deleted only by name").WithHint("%s %s NODE/CHECK. Many at once: muster event delete --help", path, word)
	}
	return nil
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
					return c.api.Events.Delete(c.ctx, n.namespace, n.node, n.check, c.changeReason(&f.changeFlags))
				})
			}
			refs, err := f.resourcesToDelete(c)
			if err != nil {
				return err
			}
			if len(refs) == 0 {
				k, err := c.findKind(c.args[0])
				if err != nil {
					return err
				}
				return printNothingToDelete(c, k, f.selector)
			}
			return c.printApplyResult(c.api.Resources.DeleteMany(c.ctx, v1.DeleteRequest{
				Resources: refs, Message: c.changeReason(&f.changeFlags), MaxAffected: f.maxAffected, DryRun: f.dryRun, Yes: f.yes,
			}))
		},
	})
}

// eventsToDelete returns the events that the arguments of muster delete event name; empty: the command deletes
// resources.
func eventsToDelete(c *commandCall, f *deleteFlags) ([]string, error) {
	if len(c.args) == 0 || !f.selectsByName() {
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
	case list != events:
		return nil, nil
	case f.dryRun:
		return nil, model.Errorf(model.Invalid, "--dry-run does not apply to events").WithHint("see it: muster describe event %s", names[0])
	}
	return names, nil
}

// resourcesToDelete returns references to the resources that flags or arguments choose.
func (f *deleteFlags) resourcesToDelete(c *commandCall) (refs []v1.Ref, err error) {
	switch {
	case len(f.files) > 0:
		docs, err := c.readFilesWithResources(f.files)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			refs = append(refs, refToResource(&d.located.Resource))
		}
	case f.selectsByName():
		if refs, err = parseResourceRefs(c); err != nil {
			return nil, err
		}
	default:
		k, err := c.findKind(c.args[0])
		if err != nil {
			return nil, err
		}
		if refs, err = c.resourceRefs(c.ctx, c.api, k.KindInfo, c.kindNamespace(k.KindInfo), f.selector); err != nil {
			return nil, err
		}
	}
	for i := range refs {
		if k, _ := c.Kinds.Of(refs[i].Kind); k.Namespaced {
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
			within, err := c.resourceRefs(c.ctx, c.api, k.KindInfo, ref.Name, "")
			if err != nil {
				return nil, err
			}
			refs = append(refs, within...)
		}
	}
	return refs, nil
}

// parseResourceRefs reads arguments of the form KIND NAME... or KIND/NAME...
func parseResourceRefs(c *commandCall) (refs []v1.Ref, err error) {
	args := c.args
	first, _, slashed := strings.Cut(args[0], "/")
	if !slashed {
		args = args[1:]
	}
	for _, arg := range args {
		word, name, ok := strings.Cut(arg, "/")
		switch {
		case !slashed:
			word, name = first, arg
		case !ok:
			return nil, model.Errorf(model.Invalid, "%q: expected KIND/NAME", arg).WithHint("muster delete %s/%s", first, arg)
		}
		k, err := c.findKind(word)
		if err != nil {
			return nil, err
		}
		namespace, name, err := c.findObject(k.KindInfo, name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, v1.Ref{Kind: k.Name, Namespace: namespace, Name: name})
	}
	return refs, nil
}

// printNothingToDelete tells the user that --all or -l selects no resource, which is no error.
func printNothingToDelete(c *commandCall, k kind.Kind, selector string) error {
	return c.printValue(v1.Applied{Outcomes: []v1.Outcome{}}, func() {
		labels := textWhen(selector != "", " with labels "+selector)
		c.Printf("no %s%s%s: nothing to delete\n", k.Plural, labels, textWhen(k.Namespaced && !c.allNamespaces, " in namespace "+c.objectNamespace()))
	})
}
