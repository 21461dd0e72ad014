package loadcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// compareSchema is the version of the JSON and YAML output: fields are added, never changed.
const compareSchema = "muster.load.compare/1"

// compareOptions are the flags of muster load compare.
type compareOptions struct {
	gate   []string
	format *format
}

// compareCommand makes the command muster load compare.
func compareCommand() *cobra.Command {
	var o compareOptions
	var alternately interleave
	cmd := &cobra.Command{
		Use:   "compare A B… | compare --interleave SCENARIO",
		Short: "Say what differs between runs, and whether it is more than chance",
		Long: `Compares runs of the same scenario: A is the base, each other is compared with it. Each is a run.json, the
folder of a run, or a folder of several runs: give at least five of each, for an interval and a verdict.
Medians are compared with the Mann-Whitney test (p below 0.01). Differences of machine, settings and scenario
are listed.

Ends with 20 if a figure is worse, or more runs failed; with 21 if anything was lost,
came twice or was a wrong alert in a run that is not the base's; with 7 if a side has no run whose generator
kept up. Folders of several scenarios are compared scenario by scenario.

With --interleave it plays the runs itself: a SCENARIO alternately with one server (--a) and with the
other (--b), A B, B A and so on, each run on a fresh server of its own. Ctrl-C ends it, and compares the
finished runs.`,
		Example: "  muster load compare old/ new/                    two folders, five runs in each\n" +
			"  muster load compare old/ new/ --gate count,relative    what differs by the machine fails nothing\n" +
			"  muster load compare --interleave muster-mixed --quick --a 'old: /opt/old/muster' --b 'new: bin/muster --snapshot-cycle=30s'",
		Args: alternately.check,
		RunE: func(cmd *cobra.Command, args []string) error {
			if alternately.on {
				return alternately.compare(cmd, &o, args[0])
			}
			sets, err := compare.ReadAll(args)
			if err != nil {
				return err
			}
			return o.compare(cmd.OutOrStdout(), sets)
		},
	}
	o.format = formatFlag(cmd, "table", "json", "yaml")
	f := cmd.Flags()
	f.StringSliceVar(&o.gate, "gate", nil, "only figures of these kinds end with 20: count, relative, absolute. Default all. What was lost always ends with 21")
	_ = cmd.RegisterFlagCompletionFunc("gate", cobra.FixedCompletions(kinds(), cobra.ShellCompDirectiveNoFileComp))
	alternately.add(f)
	return cmd
}

// kinds returns the names of the kinds of figures.
func kinds() (names []string) {
	for _, k := range scenario.Kinds() {
		names = append(names, string(k))
	}
	return names
}

// compare compares all sets with the first, scenario by scenario, and returns the error of a regression.
func (o *compareOptions) compare(out io.Writer, sets []compare.Set) error {
	var gate []scenario.Kind
	for _, g := range o.gate {
		if !slices.Contains(kinds(), g) {
			return model.Errorf(model.Invalid, "--gate %q: want %s", g, strings.Join(kinds(), ", "))
		}
		gate = append(gate, scenario.Kind(g))
	}
	var list []*compare.Comparison
	for _, group := range compare.Split(sets) {
		for _, other := range group[1:] {
			list = append(list, compare.Compare(group[0], other))
		}
	}
	if len(list) == 0 {
		return model.Errorf(model.Invalid, "no scenario was played in both %s and another", sets[0].Name).WithHint("muster load table shows what each played")
	}
	if o.format.forPrograms() {
		if err := o.format.print(out, map[string]any{"schema": compareSchema, "comparisons": list}); err != nil {
			return err
		}
		return regression(list, gate)
	}
	for i, c := range list {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprint(out, c.Text())
	}
	return regression(list, gate)
}

// regression returns the error of comparisons that show one, or in which a side has no run that counts.
func regression(list []*compare.Comparison, gate []scenario.Kind) error {
	var words []string
	code := exitMissed
	for _, c := range list {
		for _, r := range c.Regressed(gate...) {
			if r.Lost() {
				code = exitLost
			}
			words = append(words, fmt.Sprintf("%s of %s %s", r.Figure, c.Other.Name, r.Changed()))
		}
	}
	if len(words) > 0 {
		return &failed{model.Errorf(model.Invalid, "regression: %s", strings.Join(words, ", ")), code}
	}
	for _, c := range list {
		for _, s := range []compare.Side{c.Base, c.Other} {
			if s.Runs == 0 {
				return &failed{model.Errorf(model.Limited, "nothing is compared: the generator fell behind in all %d runs of %s", s.Invalid, s.Name).
					WithHint("muster load report FOLDER says who had the cores"), model.Limited.Exit()}
			}
		}
	}
	return nil
}
