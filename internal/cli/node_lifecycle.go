package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// nodeListCommand makes the command muster node list.
func nodeListCommand(s *commandLine) *cobra.Command {
	g, retired, pending := &getFlags{}, false, false
	return s.buildCommand(command{
		use: "list", formats: []string{"name"}, short: "List nodes as muster get nodes does; --pending: machines that ask to join", args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			g.registerSelector(flags, "nodes with these labels")
			g.registerWhere(flags, "node; with --pending or --retired over row, as -o json shows it")
			g.registerLimit(flags, 50)
			flags.BoolVar(&retired, "retired", false, "machines that are no longer nodes, with the reason")
			flags.BoolVar(&pending, "pending", false, "machines that asked to join without a token")
		},
		run: func(c *commandCall) error {
			switch {
			case retired:
				return listRetiredMachines(c, g)
			case pending:
				return listPendingMachines(c, g)
			}
			return getResources(c, kind.Node(), nil, g)
		},
	})
}

// listRetiredMachines lists machines that were retired, replaced or refused and must not join again.
func listRetiredMachines(c *commandCall, g *getFlags) error {
	if g.Selector != "" {
		return model.Errorf(model.Invalid, "-l does not apply to retired machines, because they have no labels").WithHint("--where 'row.by == \"ann\"'")
	}
	limit := g.limit
	if limit == 0 {
		limit = 10000
	}
	l, err := c.api.Nodes.Tombstones(c.ctx, limit, g.RowFilter)
	if err != nil {
		return err
	}
	empty := "no machine was retired, replaced or refused"
	if g.hasFilter() {
		empty = "no machines match"
	}
	left := l.All - len(l.Items)
	more := textIf(left > 0, model.CountNoun(left, "machine")+" more: --limit 0")
	return listOutput[v1.Tombstone]{
		value: l, items: l.Items, empty: empty, notes: []string{more},
		columns: screen.SplitColumns("NODE|WHY|WHEN|BY|BECAUSE|ID"),
		row: func(t v1.Tombstone) []any {
			return []any{nameWithNamespace(t.Namespace, t.Name), t.Cause, c.AgeText(t.At), t.By, t.Reason, t.ID}
		},
	}.print(c)
}

// nodeRenameCommand makes the command muster node rename.
func nodeRenameCommand(s *commandLine) *cobra.Command {
	f := &changeFlags{}
	return s.buildCommand(command{
		use: "rename OLD NEW", short: "Rename a node; it keeps its events and history",
		args: cobra.ExactArgs(2), complete: s.completeNames(kind.Node().KindInfo), flags: f.registerFlags,
		run: func(c *commandCall) error {
			namespace, name, err := c.findObject(kind.Node().KindInfo, c.args[0])
			if err != nil {
				return err
			}
			done, err := c.api.Nodes.Rename(c.ctx, namespace, name, v1.NodeRename{ChangeOptions: c.changeOptions(f), To: strings.TrimPrefix(c.args[1], namespace+"/")})
			if err != nil {
				return err
			}
			if err := printResourceChanges(c, done); err != nil || c.Format.IsForPrograms() || done.DryRun {
				return err
			}
			if n := len(done.Outcomes) - 1; n > 0 {
				c.Printf("\n%s with the name %s changed too. Change your files too: otherwise the next apply restores the old name.\nPrint a resource: muster get KIND NAME -o yaml\n",
					model.CountNoun(n, "resource"), c.args[0])
			}
			return nil
		},
	})
}

// nodeReplaceCommand makes the command muster node replace, with which another machine takes over a node.
func nodeReplaceCommand(s *commandLine) *cobra.Command {
	var message, lifetime string
	return s.buildCommand(command{
		use: "replace NAME", short: "Give a node to another or newly installed machine",
		args: cobra.ExactArgs(1), complete: s.completeNames(kind.Node().KindInfo),
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&lifetime, "for", "1h", "lifetime of the command (0: without end)")
			registerMessageFlag(flags, &message, "reason; the old machine shows it")
		},
		run: fetchAndPrint(func(c *commandCall) (t v1.JoinToken, err error) {
			seconds, err := parseLifetime("--for", lifetime)
			if err != nil {
				return t, err
			}
			namespace, name, err := c.findObject(kind.Node().KindInfo, c.args[0])
			if err != nil {
				return t, err
			}
			return c.api.Nodes.Replace(c.ctx, namespace, name, v1.NodeReplace{ExpiresIn: seconds, Message: message})
		}, func(c *commandCall, t v1.JoinToken) {
			until := textIf(!t.Expires.IsZero(), " until "+c.DateTimeAndZone(t.Expires))
			c.Printf("Paste on the machine that takes over %s:\n\n  muster-agent join %s\n\nThe command works once%s. Revoke it: muster node token delete %s\n", c.args[0], t.Token, until, t.ID)
		}),
	})
}

// nodeRetireCommand makes the command muster node retire.
func nodeRetireCommand(s *commandLine) *cobra.Command {
	f := &changeFlags{}
	var selector string
	return s.buildCommand(command{
		use: "retire NAME... | -l LABELS", short: "Retire nodes, all of them or none",
		complete: s.completeNames(kind.Node().KindInfo),
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags)
			flags.StringVarP(&selector, "selector", "l", "", "nodes with these labels: rack=a7,tier!=db,owner,!old")
		},
		check: func(c *commandCall) error {
			path := c.cmd.CommandPath()
			switch {
			case len(c.args) == 0 && selector == "":
				return model.Errorf(model.Invalid, "the names of the nodes are missing").WithHint("%s NAME, or %s -l LABELS", path, path)
			case len(c.args) > 0 && selector != "":
				return model.Errorf(model.Invalid, "node names and -l exclude each other").WithHint("%s %s", path, c.args[0])
			}
			return nil
		},
		run: func(c *commandCall) error {
			r := v1.NodeRetire{ChangeOptions: c.changeOptions(f)}
			for _, name := range c.args {
				namespace, name, err := c.findObject(kind.Node().KindInfo, name)
				if err != nil {
					return err
				}
				r.Nodes = append(r.Nodes, v1.NodeRef{Namespace: namespace, Name: name})
			}
			if selector != "" {
				nodes, err := c.listResources(c.ctx, c.api, kind.Node().KindInfo, c.listNamespace(), selector)
				if err != nil {
					return err
				}
				for _, node := range nodes {
					r.Nodes = append(r.Nodes, v1.NodeRef{Namespace: node.Metadata.Namespace, Name: node.Metadata.Name})
				}
			}
			if len(r.Nodes) == 0 {
				return (&resourceSelection{selector: selector}).printNothingSelected(c, "nodes", "retire")
			}
			return c.printApplyResult(c.api.Nodes.Retire(c.ctx, r))
		},
	})
}

// nodeUnblockCommand makes the command muster node unblock, which lets retired, replaced or refused machines ask to
// join again.
func nodeUnblockCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "unblock ID...", short: "Permit retired, replaced or refused machines to ask again", args: cobra.MinimumNArgs(1), noFormat: true,
		run: forEachArgument(func(c *commandCall, id string) error { return c.api.Nodes.DeleteTombstone(c.ctx, id) }, "%s may ask to join again"),
	})
}

// joinFlags holds the flags with the groups and labels of joining machines.
type joinFlags struct{ groups, labels []string }

// registerFlags adds the flags --groups and --labels for joining machines.
func (f *joinFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.groups, "groups", nil, "groups of the machines, comma-separated")
	flags.StringSliceVar(&f.labels, "labels", nil, "labels of the machines, NAME=VALUE, comma-separated")
}

// parseLabels parses the flag --labels, a list of NAME=VALUE with commas between.
func (f *joinFlags) parseLabels() (map[string]string, error) {
	var labels map[string]string
	for _, pair := range f.labels {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, model.Errorf(model.Invalid, "label %q: expected NAME=VALUE", pair).WithHint("write --labels NAME=VALUE")
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = value
	}
	return labels, nil
}
