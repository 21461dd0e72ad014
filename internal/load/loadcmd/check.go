package loadcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/gate"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// attempts is the number of runs of a scenario whose figures are above the baseline. Their median counts.
const attempts = 3

const (
	maxRuns      = 100        // of a scenario
	profiledRuns = "profiled" // folder of the runs for profiles, in the folder of all runs
)

// check is the release check: muster load check, and make bench.
type check struct {
	series
	findings
	baseline string
	write    bool
	runs     int
}

// checkCommand makes the command muster load check.
func checkCommand() *cobra.Command {
	c := &check{}
	cmd := &cobra.Command{
		Use:   "check [NAME|FILE…]",
		Short: "The release check: does a result cost more than it did?",
		Long: `Plays the scenarios of the release check (make bench), each at a fixed scale on a server of its own, and
compares the cost of each with the baseline: allocations, bytes, fsyncs and system calls per result, and the
server's CPU beside the loader's. They are nearly the same on every machine, and decide; times are of this
machine, and only inform. A scenario with a figure that grew by more than is allowed, or in which a pipeline
that runs faster starves another, is played twice more, and the median of the three, or what two of them
show, counts. A run whose generator fell behind is repeated once, unless it lost something. Files are played
as they are.

Exit codes: 0 nothing grew; 3 there is no baseline; 7 this machine cannot hold the check, or is too busy for
it; 20 a figure grew, people were not answered, or a pipeline was starved; 21 something was lost, came twice,
or an alert was wrong; 22 it was stopped (Ctrl-C: the run that is played gets its report, and nothing is
decided).
Starving needs at least twenty answers in both phases; a pipeline with fewer is listed as not judged.`,
		Example: "  muster load check\n" +
			"  muster load check muster-churn muster-mixed\n" +
			"  muster load check --write --runs 3        the baseline anew",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return gate.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			defer c.begin(cmd)()
			return c.stops.explain(c.check(args))
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.baseline, "baseline", "bench/baseline", "folder of the baseline")
	f.StringVarP(&c.out, "out", "o", "bench/out", "folder of the reports; those of a check before are replaced")
	f.BoolVar(&c.write, "write", false, "make the baseline anew from these runs, instead of comparing with it")
	f.IntVar(&c.runs, "runs", 1, "of each scenario; the medians count")
	c.serverFlags(f)
	return cmd
}

// check plays and judges one scenario after the other.
func (c *check) check(args []string) error {
	if err := noServer(c.cmd, append(args, "NAME")[0]); err != nil {
		return err
	}
	if c.runs < 1 || c.runs > maxRuns {
		return model.Errorf(model.Invalid, "--runs %d: want 1 to %d", c.runs, maxRuns)
	}
	list, err := c.scenarios(args)
	if err != nil {
		return err
	}
	bases := map[string][]*report.Report{}
	whole := time.Duration(0)
	for _, sc := range list {
		if !c.write {
			if bases[sc.Name], err = gate.Read(c.baseline, sc); err != nil {
				return err
			}
		}
		whole += sc.Duration() * time.Duration(c.runs)
	}
	for _, sc := range list {
		if err := clearRuns(c.out, sc.Name); err != nil {
			return err
		}
	}
	for i, sc := range list {
		c.say("== %d of %d: %s, %s; at most %s to go", i+1, len(list), sc.Name, sc.FullTitle(), whole.Round(time.Second))
		whole -= sc.Duration() * time.Duration(c.runs)
		if err := c.one(sc, bases[sc.Name]); err != nil {
			for _, found := range c.all() {
				c.say("until then: %s", found)
			}
			return c.after(err)
		}
	}
	err = c.err()
	if err == nil && !c.write {
		c.say("the release check passed: no figure that decides grew by more than is allowed")
	}
	return err
}

// one plays and judges one scenario. An error ends the check.
func (c *check) one(sc *scenario.Scenario, base []*report.Report) error {
	if err := c.preflight(c.cmd, sc, c.say); err != nil {
		return err
	}
	runs, err := c.several(sc, nil, c.runs)
	if err != nil {
		return err
	}
	excess, starved := grown(base, runs)
	if len(excess)+len(starved) > 0 && len(runs) < attempts && !slices.ContainsFunc(runs, (*report.Report).Lost) {
		why := slices.Clone(starved)
		for _, e := range excess {
			why = append(why, e.String())
		}
		c.say("%s is played again: %s", sc.Name, strings.Join(why, "; "))
		if runs, err = c.several(sc, runs, attempts); err != nil {
			return err
		}
		excess, starved = grown(base, runs)
	}
	fmt.Fprintf(c.cmd.OutOrStdout(), "%s: %s\n%s", sc.Name, sc.FullTitle(), gate.Text(base, runs))
	for _, r := range runs {
		for _, late := range r.Late() {
			if !slices.Contains(starved, late) {
				c.say("%s: for information: %s", sc.Name, late)
			}
		}
	}
	for _, who := range gate.NotJudged(runs) {
		c.say("%s: not judged: %s", sc.Name, who)
	}
	well := c.add(sc.Name, runs, excess, starved)
	if len(excess) > 0 {
		return c.profile(sc)
	}
	if !well || !c.write {
		return nil
	}
	for _, w := range gate.Wide(runs) {
		c.say("warning: %s: %s", sc.Name, w)
	}
	return gate.Write(c.baseline, sc.Name, runs)
}

// scenarios returns the named scenarios, or all of the release check if none is named.
func (c *check) scenarios(args []string) (list []*scenario.Scenario, err error) {
	if len(args) == 0 {
		args = gate.Names()
	}
	for _, name := range args {
		var sc *scenario.Scenario
		if known, ok := gate.Find(name); ok {
			sc, err = known.Load(scenario.ThisMachine())
		} else if _, missing := os.Stat(name); missing != nil {
			return nil, model.Errorf(model.NotFound, "%s is no scenario of the release check, and no file", name).WithHint("they are %s", strings.Join(gate.Names(), ", "))
		} else if sc, err = scenario.Load(name); err == nil {
			err = sc.Runs()
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

// several adds runs of a scenario up to a number. A run that lost something is the last: no median makes it less.
func (c *check) several(sc *scenario.Scenario, runs []*report.Report, upTo int) ([]*report.Report, error) {
	c.unprofiled = true
	for len(runs) < upTo {
		rep, err := c.play(sc, fmt.Sprintf("%s-%d", sc.Name, len(runs)+1))
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

// grown returns the figures above the baseline, and the starved pipelines. Figures of a run whose generator fell behind
// mean nothing: such a run is only there for its losses.
func grown(base, runs []*report.Report) ([]gate.Excess, []string) {
	if slices.ContainsFunc(runs, func(r *report.Report) bool { return !r.Valid }) {
		return nil, nil
	}
	return gate.Judge(base, runs), gate.Starved(runs)
}

// profile plays a scenario once more with profiles, and counts none of its figures. Losses count. A run that could not
// be played only leaves the profiles out.
func (c *check) profile(sc *scenario.Scenario) error {
	c.say("%s is played once more, for its profiles", sc.Name)
	c.unprofiled, c.env = false, []string{"GODEBUG=memprofilerate=4096"} // few results allocate little
	rep, err := c.play(sc, filepath.Join(profiledRuns, sc.Name))
	c.env = nil
	if rep != nil && rep.Lost() {
		c.lost = append(c.lost, fmt.Sprintf("%s, played for its profiles: %s", sc.Name, strings.Join(rep.Wrong().Sentences(), "; ")))
	}
	var judged *failed
	switch {
	case err == nil:
		c.profiles = append(c.profiles, filepath.Join(c.out, profiledRuns, sc.Name, "profiles"))
	case c.stops.stopped() || errors.As(err, &judged):
		return err
	default:
		c.say("warning: there are no profiles: %v", err)
	}
	return nil
}

// clearRuns removes the runs of a scenario that former checks left.
func clearRuns(out, name string) error {
	paths := []string{filepath.Join(profiledRuns, name)}
	for n := range maxRuns {
		paths = append(paths, fmt.Sprintf("%s-%d", name, n+1))
	}
	for _, path := range paths {
		for _, path := range []string{filepath.Join(out, path), filepath.Join(out, invalidRuns, path)} {
			if _, err := os.Stat(filepath.Join(path, "run.json")); err != nil {
				continue // it holds no run
			}
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("replace a report: %w", err)
			}
		}
	}
	return nil
}

// findings are the reasons for which the check fails.
type findings struct {
	lost, starving, grew []string // sentences
	profiles             []string // folders
}

// all returns the findings, losses first.
func (f *findings) all() []string { return slices.Concat(f.lost, f.starving, f.grew) }

// add judges the runs of one scenario, and reports whether all was well.
func (f *findings) add(name string, runs []*report.Report, excess []gate.Excess, starved []string) bool {
	before := len(f.all())
	add := func(list *[]string, what string) { *list = append(*list, name+": "+what) }
	if i := slices.IndexFunc(runs, (*report.Report).Lost); i >= 0 {
		add(&f.lost, strings.Join(runs[i].Verdict, "; "))
	} else if i := slices.IndexFunc(runs, func(r *report.Report) bool { return len(r.Failed()) > 0 }); i >= 0 {
		add(&f.starving, strings.Join(runs[i].Failed(), "; "))
	}
	for _, who := range starved {
		add(&f.starving, who)
	}
	for _, e := range excess {
		add(&f.grew, e.String())
	}
	return len(f.all()) == before
}

// after returns the error of a check that could not go on. Former losses come first.
func (f *findings) after(err error) error {
	if len(f.lost) == 0 {
		return err
	}
	return &failed{model.Errorf(model.Invalid, "the release check failed, and could not go on (%w):\n  %s", err, strings.Join(f.lost, "\n  ")), exitLost}
}

// err returns the verdict.
func (f *findings) err() error {
	if len(f.all()) == 0 {
		return nil
	}
	e, code := model.Errorf(model.Invalid, "the release check failed:\n  %s", strings.Join(f.all(), "\n  ")), exitMissed
	switch hint := ""; {
	case len(f.lost) > 0:
		code = exitLost
	case len(f.grew) > 0:
		if len(f.profiles) > 0 {
			hint = fmt.Sprintf("go tool pprof -sample_index=alloc_objects -ignore=pprof -top %s/steady-allocs.pprof shows the allocations, steady-cpu.pprof beside it the processor time; ", f.profiles[0])
		}
		e = e.WithHint("%sif it is meant, muster load check --baseline DIR --write makes the baseline anew (in the source tree make bench BASELINE=write: bench/README.md)", hint)
	}
	return &failed{e, code}
}
