package loadcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/gate"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// attempts is how often a scenario is played in all whose figures are above the baseline: one
// run may be an accident, the median of three is none.
const attempts = 3

// check is the release check: muster load check, which is make bench.
type check struct {
	options
	baseline string
	write    bool
	runs     int
}

func checkCommand() *cobra.Command {
	c := &check{}
	cmd := &cobra.Command{
		Use:   "check [NAME|FILE…]",
		Short: "The release check: does a result cost more than it did?",
		Long: `Plays the scenarios of the release check (make bench), each at a fixed scale on a server of its own, and
holds what each cost beside the baseline: allocations, bytes, fsyncs and system calls per result, and the
server's CPU beside the loader's. They are nearly the same on every machine, and decide; times are of this
machine, and only inform. A scenario with a figure that grew by more than is allowed, or in which a pipeline
that runs faster starves another, is played twice more, and the median of the three, or what two of them
show, counts. A run whose generator fell behind is put aside and played again, unless it lost something: once
is too often, on a busy machine, too. Files are played as they are.

Exit codes: 0 nothing grew; 3 there is no baseline; 7 this machine cannot hold the check, or is too busy for
it; 20 a figure grew, people were not answered, or somebody was starved; 21 something was lost, came twice,
or an alert was wrong; 22 it was stopped (Ctrl-C: the run that is played gets its report, and nothing is
decided).
Starving needs at least twenty answers in both phases; who had fewer is named as not judged. Who took longer
to settle is named and decides nothing.`,
		Example: "  muster load check\n" +
			"  muster load check muster-churn muster-mixed\n" +
			"  muster load check --write --runs 3        the baseline anew",
		SilenceUsage:  true,
		SilenceErrors: true,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, s := range gate.Scenarios() {
				names = append(names, s.Name+"\t"+s.Why)
			}
			return names, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&c.baseline, "baseline", "bench/baseline", "folder of the baseline")
	f.StringVarP(&c.out, "out", "o", "bench/out", "folder of the reports; those of a check before are replaced")
	f.BoolVar(&c.write, "write", false, "make the baseline anew from these runs, instead of holding them beside it")
	f.IntVar(&c.runs, "runs", 1, "of each scenario; the medians count")
	f.StringVar(&c.binary, "server-binary", "", "the program to start as muster server; default: this one")
	f.StringArrayVar(&c.flags, "server-flag", nil, "a word for the server that is started, such as --snapshot-cycle=30s; may be repeated")
	f.DurationVar(&c.config.MaxLag, "max-lag", 50*time.Millisecond, "generator lag (p99) that makes a run invalid; it is repeated once")
	return cmd
}

// run is the check from top to bottom.
func (c *check) run(cmd *cobra.Command, args []string) error {
	say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	ctx, signals := heedSignals(cmd, say)
	defer signals.release()
	c.stops = signals
	return signals.because(c.check(ctx, cmd, args, say))
}

// check plays and judges one scenario after the other.
func (c *check) check(ctx context.Context, cmd *cobra.Command, args []string, say func(string, ...any)) error {
	if err := noServer(cmd, "run", append(args, "NAME")[0]); err != nil {
		return err
	}
	if c.runs < 1 || c.runs > 100 {
		return model.Errorf(model.Invalid, "--runs %d: want 1 to 100", c.runs)
	}
	list, err := c.scenarios(args)
	if err != nil {
		return err
	}
	bases, err := c.baselines(list)
	if err != nil {
		return err
	}
	var wrong findings
	whole := time.Duration(0)
	for _, sc := range list {
		whole += sc.Duration() * time.Duration(c.runs)
	}
	for _, sc := range list {
		if err := clearRuns(c.out, sc.Name); err != nil {
			return err
		}
	}
	for i, sc := range list {
		say("== %d of %d: %s, %s; at most %s to go", i+1, len(list), sc.Name, sc.FullTitle(), whole.Round(time.Second))
		whole -= sc.Duration() * time.Duration(c.runs)
		if err := c.preflight(cmd, sc, say); err != nil {
			return wrong.after(err)
		}
		runs, err := c.several(ctx, cmd, sc, 1, c.runs, say)
		if err != nil {
			return wrong.after(err)
		}
		excess, starved := grown(bases[sc.Name], runs)
		if len(excess)+len(starved) > 0 && len(runs) < attempts && !anyLost(runs) {
			first := starved
			if len(excess) > 0 {
				first = []string{excess[0].String()}
			}
			say("%s: %s. It is played again: an accident?", sc.Name, first[0])
			more, err := c.several(ctx, cmd, sc, len(runs)+1, attempts, say)
			if err != nil {
				return wrong.after(err)
			}
			runs = append(runs, more...)
			excess, starved = grown(bases[sc.Name], runs)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n%s", sc.Name, sc.FullTitle(), gate.Text(bases[sc.Name], runs))
		for _, r := range runs {
			for _, late := range r.Late() {
				if !slices.Contains(starved, late) {
					say("%s: for information: %s", sc.Name, late)
				}
			}
		}
		for _, who := range gate.NotJudged(runs) {
			say("%s: not judged: %s", sc.Name, who)
		}
		well := wrong.add(sc.Name, runs, excess, starved)
		if len(excess) > 0 {
			if err := c.profile(ctx, cmd, sc, &wrong, say); err != nil {
				return wrong.after(err)
			}
		}
		if !well || !c.write {
			continue
		}
		for _, w := range gate.Wide(runs) {
			say("warning: %s: %s", sc.Name, w)
		}
		if err := gate.Write(c.baseline, sc.Name, runs); err != nil {
			return wrong.after(err)
		}
	}
	return wrong.err()
}

// scenarios are those that are asked for; without any: all of the check.
func (c *check) scenarios(args []string) (list []*scenario.Scenario, err error) {
	machine := scenario.ThisMachine()
	if len(args) == 0 {
		for _, s := range gate.Scenarios() {
			args = append(args, s.Name)
		}
	}
	for _, name := range args {
		var sc *scenario.Scenario
		known, ok := gate.Find(name)
		if ok {
			sc, err = known.Load(machine)
		} else if _, missing := os.Stat(name); missing != nil {
			return nil, model.Errorf(model.NotFound, "%s is no scenario of the release check, and no file", name).WithHint("they are %s", strings.Join(gate.Names(), ", "))
		} else if sc, err = scenario.Load(name); err == nil {
			err = resultsOnly(sc)
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(other *scenario.Scenario) bool { return other.Name == sc.Name }) {
			return nil, model.Errorf(model.Invalid, "%s is there twice, and would have one folder for its reports", sc.Name).WithHint("leave one out, or give its file another name")
		}
		sc.Objectives = nil // most are times
		for i := range sc.Phases {
			sc.Phases[i].Objectives = nil
		}
		list = append(list, sc)
	}
	return list, nil
}

// baselines are all there before anything is played.
func (c *check) baselines(list []*scenario.Scenario) (map[string][]*report.Report, error) {
	bases := map[string][]*report.Report{}
	if c.write {
		return bases, nil
	}
	for _, sc := range list {
		runs, err := gate.Read(c.baseline, sc)
		if err != nil {
			return nil, err
		}
		bases[sc.Name] = runs
	}
	return bases, nil
}

// several plays a scenario from one run to another. One that lost something ends that, whether its
// generator kept up or not: once is too often, and no median makes it less.
func (c *check) several(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, from, to int, say func(string, ...any)) (runs []*report.Report, err error) {
	for n := from; n <= to; n++ {
		rep, err := c.once(ctx, cmd, sc, fmt.Sprintf("%s-%d", sc.Name, n), false, say)
		if err != nil {
			return nil, err
		}
		if !rep.Valid && !rep.Lost() {
			return nil, model.Errorf(model.Limited, "%s: this machine is too busy for the check: %s", sc.Name, rep.Verdict[0]).WithHint("end what else runs (top), or wait, and type it again")
		}
		if runs = append(runs, rep); rep.Lost() {
			break
		}
	}
	return runs, nil
}

// grown is what runs cost more than the baseline, and who was starved in them. Figures of a run
// whose generator fell behind are of nothing: it is only there for what it lost.
func grown(base, runs []*report.Report) ([]gate.Excess, []string) {
	if slices.ContainsFunc(runs, func(r *report.Report) bool { return !r.Valid }) {
		return nil, nil
	}
	return gate.Judge(base, runs), gate.Starved(runs)
}

func anyLost(runs []*report.Report) bool { return slices.ContainsFunc(runs, (*report.Report).Lost) }

// once plays a scenario into a folder.
func (c *check) once(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, name string, profiles bool, say func(string, ...any)) (*report.Report, error) {
	own := c.options
	if own.unprofiled = !profiles; profiles {
		own.env = []string{"GODEBUG=memprofilerate=4096"} // one allocation in so many bytes is seen: few results allocate little
	}
	return playLeg(c.stops, c.out, name, say, func(kept *folder.Folder) (*report.Report, error) { return own.against(ctx, cmd, sc, kept, say) })
}

// profile plays a scenario once more, to see what it spends so much on. None of its figures is
// counted. The error ends the check.
func (c *check) profile(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, wrong *findings, say func(string, ...any)) error {
	say("%s is played once more, for its profiles", sc.Name)
	path := filepath.Join(profiled, sc.Name)
	rep, err := c.once(ctx, cmd, sc, path, true, say)
	return wrong.seen(sc.Name, filepath.Join(c.out, path, "profiles"), rep, err, c.stops.stopped(), say)
}

// seen takes what the run for the profiles came to. What was lost in it is lost, and who stops it
// stops the check; that it could not be played only leaves its profiles out.
func (f *findings) seen(name, path string, rep *report.Report, err error, stopped bool, say func(string, ...any)) error {
	if rep != nil && rep.Lost() {
		f.lost = append(f.lost, fmt.Sprintf("%s, played for its profiles: %s", name, strings.Join(rep.Wrong().Sentences(), "; ")))
	}
	var judged *failed
	switch {
	case err == nil:
		f.profiles = append(f.profiles, path)
	case stopped || errors.As(err, &judged):
		return err
	default:
		say("warning: there are no profiles: %v", err)
	}
	return nil
}

// profiled are the runs that were played for their profiles, below the folder of them all.
const profiled = "profiled"

// clearRuns removes what checks before left of a scenario: NAME-1 and up, valid or not, and its
// profiles. They may be more than are played now, and of another build.
func clearRuns(out, name string) error {
	for _, dir := range []string{out, filepath.Join(out, repeated)} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace reports: %w", err)
		}
		for _, e := range entries {
			number, ok := strings.CutPrefix(e.Name(), name+"-")
			if _, err := strconv.ParseUint(number, 10, 32); !ok || err != nil {
				continue
			}
			if err := removeRun(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if err := removeRun(filepath.Join(dir, profiled, name)); err != nil {
			return err
		}
	}
	return nil
}

// removeRun removes a folder that holds a run.
func removeRun(path string) error {
	switch _, err := os.Stat(filepath.Join(path, "run.json")); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("replace a report: %w", err)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("replace a report: %w", err)
	}
	return nil
}

// findings are what the check fails with.
type findings struct {
	grew, lost, failed []string // sentences
	profiles           []string // folders, of those that grew
}

// add takes what one scenario came to, and says whether all was well.
func (f *findings) add(name string, runs []*report.Report, excess []gate.Excess, starved []string) bool {
	well := len(excess)+len(starved) == 0
	if i := slices.IndexFunc(runs, (*report.Report).Lost); i >= 0 {
		f.lost = append(f.lost, fmt.Sprintf("%s: %s", name, strings.Join(runs[i].Verdict, "; ")))
		well = false
	} else if i := slices.IndexFunc(runs, func(r *report.Report) bool { return len(r.Failed()) > 0 }); i >= 0 {
		f.failed = append(f.failed, fmt.Sprintf("%s: %s", name, strings.Join(runs[i].Failed(), "; ")))
		well = false
	}
	for _, who := range starved {
		f.failed = append(f.failed, fmt.Sprintf("%s: %s", name, who))
	}
	for _, e := range excess {
		f.grew = append(f.grew, fmt.Sprintf("%s: %s", name, e))
	}
	return well
}

// after is the error of a check that could not go on. What was lost before that is told all the
// same, and first.
func (f *findings) after(err error) error {
	if len(f.lost) == 0 {
		return err
	}
	return &failed{model.Errorf(model.Invalid, "the release check failed, and could not go on (%w):\n  %s", err, strings.Join(f.lost, "\n  ")), exitLost}
}

// err is nil where nothing was found. What was lost is told before what grew.
func (f *findings) err() error {
	all := slices.Concat(f.lost, f.failed, f.grew)
	if len(all) == 0 {
		return nil
	}
	e := model.Errorf(model.Invalid, "the release check failed:\n  %s", strings.Join(all, "\n  "))
	switch {
	case len(f.lost) > 0:
		return &failed{e, exitLost}
	case len(f.grew) == 0:
		return &failed{e, exitMissed}
	}
	hint := "if it is meant, muster load check --baseline DIR --write makes the baseline anew (in the source tree make bench BASELINE=write: bench/README.md)"
	if len(f.profiles) > 0 {
		likewise := ""
		if more := f.profiles[1:]; len(more) > 0 {
			likewise = " (likewise in " + strings.Join(more, ", ") + ")"
		}
		hint = fmt.Sprintf("go tool pprof -sample_index=alloc_objects -top %s/steady-allocs.pprof shows what allocates, steady-cpu.pprof beside it what computes%s; %s", f.profiles[0], likewise, hint)
	}
	return &failed{e.WithHint("%s", hint), exitMissed}
}
