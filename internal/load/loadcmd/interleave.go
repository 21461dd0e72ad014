package loadcmd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// interleave plays what is compared in turns: muster load compare --interleave.
type interleave struct {
	options
	on    bool
	a, b  string
	runs  int
	words []string // flags that are nothing without --interleave
}

func (i *interleave) add(all *pflag.FlagSet) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&i.a, "a", "", "with --interleave: the one, 'NAME: PROGRAM FLAG…', any of them left out; default: this program as it is")
	f.StringVar(&i.b, "b", "", "with --interleave: the other, likewise")
	f.IntVar(&i.runs, "runs", 5, "with --interleave: of each")
	f.BoolVar(&i.quick, "quick", false, "with --interleave: the scenario's quick form, a minute each")
	f.Float64Var(&i.scale, "scale", 0, "with --interleave: so many times the agents, such as 0.1")
	f.Uint64Var(&i.seed, "seed", 0, "with --interleave: same seed, same timetable; default: the scenario's")
	f.DurationVar(&i.config.MaxLag, "max-lag", 50*time.Millisecond, "with --interleave: generator lag (p99) that makes a run invalid; it is repeated once")
	f.StringVar(&i.out, "out", "", "with --interleave: the folder of all runs; default: muster-load/NAME-interleaved-TIME")
	f.VisitAll(func(flag *pflag.Flag) { i.words = append(i.words, flag.Name) })
	all.AddFlagSet(f)
	all.BoolVar(&i.on, "interleave", false, "play a SCENARIO with two servers in turns, each run on a fresh one, and compare those runs")
}

// one wants one scenario.
func (i *interleave) one(args []string) error {
	if len(args) != 1 {
		return model.Errorf(model.Invalid, "--interleave plays one scenario, and has %d", len(args)).WithHint("muster load compare --interleave muster-mixed --quick --b 'new: bin/muster'")
	}
	return nil
}

// without refuses flags that mean nothing without --interleave.
func (i *interleave) without(f *pflag.FlagSet) error {
	for _, name := range i.words {
		if f.Changed(name) {
			return model.Errorf(model.Invalid, "--%s is for runs that are played now", name).WithHint("add --interleave, and name a scenario instead of folders")
		}
	}
	return nil
}

// compare plays in turns, then compares what was done, however it ended.
func (i *interleave) compare(cmd *cobra.Command, o *compareOptions, nameOrFile string) error {
	sets, err := i.playAll(cmd, nameOrFile)
	err = i.stops.because(err)
	if len(sets) == 0 || len(sets[0].Runs) == 0 || len(sets[1].Runs) == 0 {
		return err
	}
	shown := o.hold(cmd.OutOrStdout(), sets)
	if endsWith(shown, exitLost) && !endsWith(err, exitLost) {
		return shown
	}
	return cmp.Or(err, shown)
}

// sides are what is played in turns: A and B.
func (i *interleave) sides() ([]side, error) {
	a, err := newSide(i.a, "a")
	if err != nil {
		return nil, err
	}
	b, err := newSide(i.b, "b")
	if err != nil {
		return nil, err
	}
	sides := []side{a, b}
	taken := []string{repeated}
	for _, s := range sides {
		if slices.Contains(taken, s.name) {
			return nil, model.Errorf(model.Invalid, "a side cannot be called %s: %s have their folders", s.name, strings.Join(taken, ", ")).WithHint("%s", sideHint)
		}
		taken = append(taken, s.name)
	}
	if i.runs < 1 || i.runs > 1000 {
		return nil, model.Errorf(model.Invalid, "--runs %d: want 1 to 1000; five and more give an interval", i.runs)
	}
	return sides, nil
}

// playAll plays all legs, and returns the runs of each side. What was done before an error
// (Ctrl-C is one) is there too.
func (i *interleave) playAll(cmd *cobra.Command, nameOrFile string) ([]compare.Set, error) {
	say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	ctx, signals := heedSignals(cmd, say)
	defer signals.release()
	i.stops = signals
	if err := noServer(cmd, "run", nameOrFile); err != nil {
		return nil, err
	}
	sides, err := i.sides()
	if err != nil {
		return nil, err
	}
	sc, err := i.scenario(cmd, nameOrFile)
	if err != nil {
		return nil, err
	}
	if sc.Target != "" && sc.Target != "muster" {
		return nil, model.Errorf(model.Unsupported, "%s is played against %s, and --interleave starts servers of its own", sc.Name, sc.Target).WithHint("muster load run it by turns, then muster load compare the folders")
	}
	if err := i.preflight(cmd, sc, say); err != nil {
		return nil, err
	}
	if i.out == "" {
		i.out = folder.Name(sc.Name+"-interleaved", time.Now())
	}
	defer func() { say("the runs are in %s", i.out) }()
	sets := make([]compare.Set, len(sides))
	for n, s := range sides {
		sets[n].Name = s.name
		say("%s", s)
	}
	legs, began := order(len(sides), i.runs), time.Now()
	for n, l := range legs {
		s := sides[l.side]
		say("leg %d of %d: %s, run %d of %d; about %s to go", n+1, len(legs), s.name, l.run, i.runs, left(sc, began, n, len(legs), time.Now()))
		rep, err := playLeg(i.stops, i.out, filepath.Join(s.name, fmt.Sprint(l.run)), say, func(kept *folder.Folder) (*report.Report, error) {
			return i.leg(ctx, cmd, sc, s, kept, say)
		})
		if err != nil {
			return sets, err
		}
		sets[l.side].Runs = append(sets[l.side].Runs, rep)
	}
	return sets, nil
}
