package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// which says which resources to delete; nothing in it: those named.
type which struct {
	files        []string
	selector     string
	all, cascade bool
}

func (w *which) byName() bool { return len(w.files) == 0 && w.selector == "" && !w.all }

// check refuses what could be understood in two ways.
func (w *which) check(c *cobra.Command, args []string) error {
	kind := "KIND"
	if len(args) > 0 {
		kind, _, _ = strings.Cut(args[0], "/")
	}
	switch {
	case len(w.files) > 0 && (len(args) > 0 || w.selector != "" || w.all || w.cascade):
		return model.Errorf(model.Invalid, "-f says which resources; nothing else may").WithHint("%s -f %s", c.CommandPath(), w.files[0])
	case len(w.files) > 0:
		return nil
	case len(args) == 0:
		return model.Errorf(model.Invalid, "it is not said what to delete").WithHint("%s KIND NAME, or %s -f FILE", c.CommandPath(), c.CommandPath())
	case w.all && w.selector != "":
		return model.Errorf(model.Invalid, "--all and -l are not one").WithHint("%s %s -l %s", c.CommandPath(), kind, w.selector)
	case w.byName():
		return nil
	case len(args) > 1 || strings.Contains(args[0], "/"):
		return model.Errorf(model.Invalid, "names say which resources; --all and -l may not").WithHint("%s %s --all", c.CommandPath(), kind)
	case isStateWord(kind):
		return model.Errorf(model.Invalid, "events are deleted by name").WithHint("%s %s NODE/CHECK; what there is: muster get events", c.CommandPath(), kind)
	}
	return nil
}

// refs are the resources to delete.
func (a *app) refs(ctx context.Context, c *client.Client, w *which, args []string) (refs []v1.Ref, err error) {
	switch {
	case len(w.files) > 0:
		docs, err := a.readFiles(w.files)
		if err == nil && len(docs) == 0 {
			err = noResource(w.files)
		}
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			ref, err := refIn(d.body)
			if err != nil {
				return nil, err
			}
			refs = append(refs, ref)
		}
	case w.byName():
		if refs, err = a.refsOf(args); err != nil {
			return nil, err
		}
	default:
		k, err := a.kindOf(args[0])
		if err != nil {
			return nil, err
		}
		namespace := ""
		if k.Namespaced {
			namespace = a.ns()
		}
		if refs, err = refsIn(ctx, c, k, namespace, w.selector); err != nil {
			return nil, err
		}
	}
	for i := range refs {
		if k, _ := a.Kinds.Of(refs[i].Kind); k.Namespaced {
			refs[i].Namespace = cmp.Or(refs[i].Namespace, a.ns())
		}
	}
	if !w.cascade {
		return refs, nil
	}
	for _, ref := range refs {
		if ref.Kind != "Namespace" {
			return nil, model.Errorf(model.Invalid, "--cascade is for namespaces: nothing is in a %s", strings.ToLower(ref.Kind)).WithHint("leave --cascade out")
		}
		for _, k := range a.Kinds.Kinds() {
			if !k.Namespaced {
				continue
			}
			within, err := refsIn(ctx, c, k, ref.Name, "")
			if err != nil {
				return nil, err
			}
			refs = append(refs, within...)
		}
	}
	return refs, nil
}

// refsIn are all resources of a kind in a namespace that have the labels.
func refsIn(ctx context.Context, c *client.Client, k kind.Kind, namespace, selector string) ([]v1.Ref, error) {
	everything := format("json")
	items, _, _, err := listAll(ctx, c, k, namespace, &getFlags{selector: selector, output: &everything})
	if err != nil {
		return nil, err
	}
	refs := make([]v1.Ref, len(items))
	for i, item := range items {
		if refs[i], err = refIn(item); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

func refIn(resource json.RawMessage) (v1.Ref, error) {
	o, err := decodeObject(resource)
	return v1.Ref{Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}, err
}

// nothingToDelete is no error: what --all and -l ask for is so.
func (a *app) nothingToDelete(w *which, kind string, f format) error {
	if f.machine() {
		return a.printValue(f, v1.Applied{Outcomes: []v1.Outcome{}})
	}
	k, err := a.kindOf(kind)
	if err != nil {
		return err
	}
	with := ""
	if w.selector != "" {
		with = " with labels " + w.selector
	}
	fmt.Fprintf(a.Stdout, "no %s%s%s: nothing to delete\n", k.Plural, clean(with, false), a.where(&getFlags{}, k))
	return nil
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
		k, err := a.kindOf(kind)
		if err != nil {
			return nil, err
		}
		refs = append(refs, v1.Ref{Kind: k.Name, Name: name})
	}
	return refs, nil
}
