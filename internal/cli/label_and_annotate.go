package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// labelCommand makes the command muster label, which sets and removes labels of resources.
func labelCommand(s *commandLine) *cobra.Command {
	return metadataCommand(s, "label", "label", func(m *model.Metadata) *map[string]string { return &m.Labels })
}

// annotateCommand makes the command muster annotate, which sets and removes annotations of resources.
func annotateCommand(s *commandLine) *cobra.Command {
	return metadataCommand(s, "annotate", "annotation", func(m *model.Metadata) *map[string]string { return &m.Annotations })
}

// metadataCommand makes the command label or annotate, which changes labels or annotations of resources. It acts on
// named resources, all resources of a kind, or resources that a selector matches.
func metadataCommand(s *commandLine, name, field string, of func(*model.Metadata) *map[string]string) *cobra.Command {
	f, selection, overwrite := &changeFlags{}, &resourceSelection{}, false
	var objects, changes []string
	return s.buildCommand(command{
		use:   name + " KIND NAME...|-l LABELS|--all KEY=VALUE|KEY-...",
		short: "Set " + field + "s of resources; KEY- removes one",
		args:  cobra.MinimumNArgs(1), complete: s.completeObjects(1000),
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags)
			selection.registerFlags(flags)
			flags.BoolVar(&overwrite, "overwrite", false, "replace values that exist")
		},
		check: func(c *commandCall) error {
			first := 1 + slices.IndexFunc(c.args[1:], isMetadataChange)
			if first == 0 {
				return model.Errorf(model.Invalid, "KEY=VALUE is missing").WithHint("%s %s KEY=VALUE, or KEY- to remove it", c.cmd.CommandPath(), strings.Join(c.args, " "))
			}
			objects, changes = c.args[:first], c.args[first:]
			return selection.validate(c, objects)
		},
		run: func(c *commandCall) error {
			list, err := selection.readResources(c, objects)
			if err != nil {
				return err
			}
			request := v1.ApplyRequest{ChangeOptions: c.changeOptions(f)}
			for _, r := range list {
				ref := refToResource(r)
				values := of(&r.Metadata)
				if *values, err = changeMetadata(*values, changes, field, resourceRefText(ref.Kind, ref.Namespace, ref.Name), overwrite); err != nil {
					return err
				}
				request.Expect = append(request.Expect, v1.Expected{Ref: ref, Revision: r.Status.Revision})
				r.Status = nil
				body, err := json.Marshal(r)
				if err != nil {
					return fmt.Errorf("encode %s: %w", ref.Name, err)
				}
				request.Resources = append(request.Resources, body)
			}
			if len(list) == 0 {
				return selection.printNothingSelected(c, objects[0], "change")
			}
			return c.printApplyResult(c.api.Resources.Apply(c.ctx, request))
		},
	})
}

// isMetadataChange reports whether an argument is a change KEY=VALUE or KEY-, not the name of a resource
func isMetadataChange(arg string) bool {
	return strings.Contains(arg, "=") || strings.HasSuffix(arg, "-")
}

// changeMetadata returns the labels or annotations of a resource after the requested changes, such as KEY=VALUE
// and KEY-.
func changeMetadata(values map[string]string, changes []string, field, object string, overwrite bool) (map[string]string, error) {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]string{}
	}
	for _, change := range changes {
		key, value, set := strings.Cut(change, "=")
		old, exists := out[key]
		switch {
		case !set && strings.HasSuffix(change, "-") && len(change) > 1:
			delete(out, strings.TrimSuffix(change, "-"))
			continue
		case !set || key == "":
			return nil, model.Errorf(model.Invalid, "%q: expected KEY=VALUE, or KEY- to remove a %s", change, field).WithHint("for example env=prod")
		case exists && old != value && !overwrite:
			return nil, model.Errorf(model.Conflict, "the %s %s of %s already has the value %q", field, key, object, old).WithHint("replace it: --overwrite")
		}
		out[key] = value
	}
	return out, nil
}
