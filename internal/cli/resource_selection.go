package cli

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// resourceSelection holds the flags -l and --all, with which a command selects resources of one kind. Without
// them, the arguments name the resources.
type resourceSelection struct {
	selector string
	all      bool
}

// registerFlags adds the flags -l and --all.
func (f *resourceSelection) registerFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&f.selector, "selector", "l", "", "resources of the kind with these labels: env=test,tier!=db,owner,!old")
	flags.BoolVar(&f.all, "all", false, "all resources of the kind in the namespace")
}

// selectsByName reports whether arguments name the resources, so that neither -l nor --all selects.
func (f *resourceSelection) selectsByName() bool { return f.selector == "" && !f.all }

// validate returns an error for ambiguous combinations of flags and arguments that select resources
func (f *resourceSelection) validate(c *commandCall, args []string) error {
	path := c.cmd.CommandPath()
	word, _, slashed := strings.Cut(args[0], "/")
	switch {
	case f.all && f.selector != "":
		return model.Errorf(model.Invalid, "--all and -l exclude each other").WithHint("%s %s -l %s", path, word, f.selector)
	case !f.selectsByName() && (len(args) > 1 || slashed):
		return model.Errorf(model.Invalid, "resource names cannot be combined with --all or -l").WithHint("%s %s --all", path, word)
	case f.selectsByName() && len(args) == 1 && !slashed:
		return c.missingNameError(c.cmd, word)
	}
	return nil
}

// readRefs returns references (kind, namespace and name) to the resources that arguments or flags select.
func (f *resourceSelection) readRefs(c *commandCall, args []string) ([]v1.Ref, error) {
	if f.selectsByName() {
		return parseResourceRefs(c, args)
	}
	list, err := f.readResources(c, args)
	return refsToResources(list), err
}

// readResources reads from the server the resources that arguments or flags select.
func (f *resourceSelection) readResources(c *commandCall, args []string) (list []*model.Resource, err error) {
	if !f.selectsByName() {
		k, err := c.findKind(args[0])
		if err != nil {
			return nil, err
		}
		return c.listResources(c.ctx, c.api, k.KindInfo, c.kindNamespace(k.KindInfo), f.selector)
	}
	refs, err := parseResourceRefs(c, args)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		k, err := c.findKind(ref.Kind)
		if err != nil {
			return nil, err
		}
		data, _, err := c.api.Resources.Get(c.ctx, k.KindInfo, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		r, err := c.Kinds.DecodeResource(data)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// printNothingSelected prints a line for the case that --all or -l matches no resource. An empty selection is
// not an error.
func (f *resourceSelection) printNothingSelected(c *commandCall, word, act string) error {
	k, err := c.findKind(word)
	if err != nil {
		return err
	}
	return c.printValue(v1.Applied{Outcomes: []v1.Outcome{}}, func() {
		labels := textIf(f.selector != "", " with labels "+f.selector)
		c.Wrapf(2, "no %s%s%s: nothing to %s", k.Plural, labels, textIf(k.Namespaced && !c.allNamespaces, " in namespace "+c.objectNamespace()), act)
	})
}

// parseResourceRefs parses arguments of the form KIND NAME… or KIND/NAME… to references to resources.
func parseResourceRefs(c *commandCall, args []string) (refs []v1.Ref, err error) {
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
			return nil, model.Errorf(model.Invalid, "%q: expected KIND/NAME", arg).WithHint("%s %s/%s", c.cmd.CommandPath(), first, arg)
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

// listResources returns all resources of a kind that have the labels of the selector. The search is in one namespace,
// or with an empty one in all.
func (s *commandLine) listResources(ctx context.Context, api *client.Client, k model.KindInfo, namespace, selector string) ([]*model.Resource, error) {
	list, _, err := client.Pages(0, func(size int, after string) (list []*model.Resource, _ string, _ error) {
		page, err := api.Resources.List(ctx, k, namespace, v1.ResourceFilter{Selector: selector}, false, size, after)
		if err != nil {
			return nil, "", err
		}
		for _, item := range page.Items {
			r, err := s.Kinds.DecodeResource(item)
			if err != nil {
				return nil, "", err
			}
			list = append(list, r)
		}
		return list, page.Next, nil
	})
	return list, err
}

// refsToResources converts resources to references (kind, namespace and name)
func refsToResources(list []*model.Resource) (refs []v1.Ref) {
	for _, r := range list {
		refs = append(refs, refToResource(r))
	}
	return refs
}

// refToResource converts a resource to a reference (kind, namespace and name)
func refToResource(r *model.Resource) v1.Ref {
	return v1.Ref{Kind: r.Kind, Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}
}
