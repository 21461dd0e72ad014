package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// labelCommand makes the command that sets and removes labels.
func labelCommand(s *commandLine) *cobra.Command {
	return metadataCommand(s, "label", "label", func(m *model.Metadata) *map[string]string { return &m.Labels })
}

// annotateCommand makes the command that sets and removes annotations.
func annotateCommand(s *commandLine) *cobra.Command {
	return metadataCommand(s, "annotate", "annotation", func(m *model.Metadata) *map[string]string { return &m.Annotations })
}

// metadataCommand makes a command that changes one map of the metadata of a resource.
func metadataCommand(s *commandLine, name, field string, of func(*model.Metadata) *map[string]string) *cobra.Command {
	f, overwrite := &changeFlags{}, false
	var k kind.Kind
	var object string
	var changes []string
	return s.buildCommand(command{
		use: name + " KIND NAME KEY=VALUE|KEY-...", short: "Set " + field + "s of a resource; KEY- removes one",
		args: cobra.MinimumNArgs(2), complete: s.completeObjects(1),
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags)
			flags.BoolVar(&overwrite, "overwrite", false, "replace values that exist")
		},
		check: func(c *commandCall) (err error) {
			names := 2
			if strings.Contains(c.args[0], "/") {
				names = 1
			}
			var word string
			if word, object, err = c.kindAndName(c.cmd, c.args[:names]); err != nil {
				return err
			}
			if changes = c.args[names:]; len(changes) == 0 {
				return model.Errorf(model.Invalid, "KEY=VALUE is missing").WithHint("%s %s %s KEY=VALUE, or KEY- to remove it", c.cmd.CommandPath(), word, object)
			}
			k, err = c.findKind(word)
			return err
		},
		run: func(c *commandCall) error {
			namespace, object, err := c.findObject(k.KindInfo, object)
			if err != nil {
				return err
			}
			data, tag, err := c.api.Resources.Get(c.ctx, k.KindInfo, namespace, object)
			if err != nil {
				return err
			}
			r, err := c.Kinds.DecodeResource(data)
			if err != nil {
				return err
			}
			values := of(&r.Metadata)
			if *values, err = changeMetadata(*values, changes, field, overwrite); err != nil {
				return err
			}
			r.Status = nil
			body, err := json.Marshal(r)
			if err != nil {
				return fmt.Errorf("encode %s: %w", object, err)
			}
			return c.printApplyResult(c.api.Resources.Put(c.ctx, k.KindInfo, namespace, object, body, tag, c.changeReason(f), f.maxAffected, f.dryRun, f.yes))
		},
	})
}

// changeMetadata returns labels or annotations after changes of the form KEY=VALUE and KEY-.
func changeMetadata(values map[string]string, changes []string, field string, overwrite bool) (map[string]string, error) {
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
			return nil, model.Errorf(model.Conflict, "the %s %s already has the value %q", field, key, old).WithHint("replace it: --overwrite")
		}
		out[key] = value
	}
	return out, nil
}
