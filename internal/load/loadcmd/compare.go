package loadcmd

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// compareSchema is the version of what -o json and -o yaml print: fields are added, never
// changed.
const compareSchema = "muster.load.compare/1"

// compareOptions are the flags of muster load compare.
type compareOptions struct {
	gate   []string
	format *format
}

func compareCommand() *cobra.Command {
	var o compareOptions
	var turns interleave
	cmd := &cobra.Command{
		Use:   "compare A B… | compare --interleave SCENARIO",
		Short: "Say what differs between runs, and whether it is more than chance",
		Long: `Holds runs of the same scenario beside each other: A is the base, each other is compared with it. Each is a
run.json, the folder of a run, or a folder that holds several runs: give at least five of each, for an
interval and a verdict. Medians are compared with the Mann-Whitney test (p below 0.01), and with
how much the base differs from itself: "noise" is what it shows without any change. What makes the
comparison doubtful (another machine, another scenario, ...) is said in sentences.

Ends with 20 if a figure is worse, or is there no more though it had to be; with 21 if anything was lost,
came twice or was a wrong alert in a run that is not the base's; with 7 if a side has no run whose generator
kept up. Folders of several scenarios are compared scenario by scenario.

With --interleave it plays the runs itself: a SCENARIO in turns, with one server (--a) and with the other
(--b), A B, B A and so on, each run on a fresh server of its own. Ctrl-C ends it, and compares what is done.`,
		Example: "  muster load compare old/ new/                    two folders, five runs in each\n" +
			"  muster load compare old/ new/ --gate count,relative    what differs by the machine fails nothing\n" +
			"  muster load compare --interleave muster-mixed --quick --a 'old: /opt/old/muster' --b 'new: bin/muster --snapshot-cycle=30s'",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if turns.on {
				return turns.one(args)
			}
			if len(args) < 2 {
				return model.Errorf(model.Invalid, "a comparison needs two runs or more, the base first, and has %d", len(args)).
					WithHint("such as muster load compare old/ new/, or old/run.json new/run.json; muster load report shows one run")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if turns.on {
				return turns.compare(cmd, &o, args[0])
			}
			if err := turns.without(cmd.Flags()); err != nil {
				return err
			}
			return o.compare(cmd.OutOrStdout(), args)
		},
	}
	o.format = formatFlag(cmd, "table", "table", "wide", "markdown", "json", "yaml")
	f := cmd.Flags()
	f.StringSliceVar(&o.gate, "gate", nil, "only figures of these kinds end with 20: count, relative, absolute. Default all. What was lost always ends with 21")
	_ = cmd.RegisterFlagCompletionFunc("gate", cobra.FixedCompletions(kinds(), cobra.ShellCompDirectiveNoFileComp))
	turns.add(f)
	return cmd
}

func kinds() (names []string) {
	for _, k := range scenario.Kinds() {
		names = append(names, string(k))
	}
	return names
}

// compare reads, compares and shows.
func (o *compareOptions) compare(out io.Writer, args []string) error {
	sets, err := readSets(args)
	if err != nil {
		return err
	}
	return o.hold(out, sets)
}

// hold compares sets with the first, and shows it.
func (o *compareOptions) hold(out io.Writer, sets []compare.Set) error {
	var gate []scenario.Kind
	for _, g := range o.gate {
		if !slices.Contains(kinds(), g) {
			return model.Errorf(model.Invalid, "--gate %q: want %s", g, strings.Join(kinds(), ", "))
		}
		gate = append(gate, scenario.Kind(g))
	}
	groups := compareAll(sets)
	if len(groups) == 0 {
		return model.Errorf(model.Invalid, "no scenario was played in both %s and another", sets[0].Name).WithHint("muster load table shows what each played")
	}
	if err := o.show(out, groups); err != nil {
		return err
	}
	return regression(groups, gate)
}

// readSets names them by the last part of their paths, where that tells them apart.
func readSets(paths []string) (sets []compare.Set, err error) {
	short := func(path string) string {
		path = strings.TrimSuffix(strings.TrimSuffix(path, "/run.json"), ".json")
		return filepath.Base(path)
	}
	names := map[string]int{}
	for _, path := range paths {
		set, err := compare.Read(path)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
		names[short(path)]++
	}
	for i, path := range paths {
		if names[short(path)] == 1 {
			sets[i].Name = short(path)
		}
	}
	if times := timesOf(sets); len(sets) > 1 && times != nil {
		for i := range sets {
			sets[i].Name = times[i]
		}
	}
	return sets, nil
}

// timesOf are the names without what they have in common, where they are of one scenario and differ in
// their times, as muster load run names folders: SCENARIO-20261123-120918. nil: they are not.
func timesOf(sets []compare.Set) (times []string) {
	const length = len("20261123-120918")
	scenarios := map[string]bool{}
	for _, s := range sets {
		cut := len(s.Name) - length
		if cut < 1 {
			return nil
		}
		if _, err := time.Parse("20060102-150405", s.Name[cut:]); err != nil || slices.Contains(times, s.Name[cut:]) {
			return nil
		}
		scenarios[s.Name[:cut]] = true
		times = append(times, s.Name[cut:])
	}
	if len(scenarios) > 1 {
		return nil
	}
	return times
}

// compareAll holds all sets beside the first, scenario by scenario.
func compareAll(sets []compare.Set) (groups [][]*compare.Comparison) {
	for _, group := range compare.Split(sets) {
		var list []*compare.Comparison
		for _, other := range group[1:] {
			list = append(list, compare.Compare(group[0], other))
		}
		groups = append(groups, list)
	}
	return groups
}

func (o *compareOptions) show(out io.Writer, groups [][]*compare.Comparison) error {
	if o.format.machine() {
		return o.format.print(out, map[string]any{"schema": compareSchema, "comparisons": slices.Concat(groups...)})
	}
	for i, list := range groups {
		if i > 0 {
			fmt.Fprintln(out)
		}
		err := error(nil)
		if o.format.name == "markdown" {
			err = compare.Markdown(out, list)
		} else {
			err = compare.Text(out, list, o.format.name == "wide")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// regression is the error of a comparison that shows one.
func regression(groups [][]*compare.Comparison, gate []scenario.Kind) error {
	var words []string
	code := exitMissed
	for _, c := range slices.Concat(groups...) {
		for _, r := range c.Regressed(gate...) {
			if r.Lost() {
				code = exitLost
			}
			words = append(words, fmt.Sprintf("%s of %s %s", r.Figure, c.Other.Name, r.Changed()))
		}
	}
	if len(words) == 0 {
		return notCompared(groups)
	}
	return &failed{model.Errorf(model.Invalid, "regression: %s", strings.Join(words, ", ")), code}
}

// notCompared is the error of a comparison of which a side has no run that counts: whoever waits for
// its exit code must not take that for good.
func notCompared(groups [][]*compare.Comparison) error {
	for _, c := range slices.Concat(groups...) {
		for _, s := range []compare.Side{c.Base, c.Other} {
			if s.Runs == 0 {
				return &failed{model.Errorf(model.Limited, "nothing is compared: the generator fell behind in all %d runs of %s", s.Invalid, s.Name).
					WithHint("muster load report FOLDER says who had the cores"), model.Limited.Exit()}
			}
		}
	}
	return nil
}
