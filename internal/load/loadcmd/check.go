package loadcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/gate"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// attempts is the number of runs of a scenario whose figures are above the baseline. Their median counts.
const attempts = 3

// maxRuns is the largest number of runs of a scenario.
const maxRuns = 100

// check is the release check: muster load check, and make bench.
type check struct {
	runner
	found    []finding
	baseline string
	write    bool
	runs     int
}

// checked is a scenario of the check.
type checked struct {
	*scenario.Scenario
	command string           // plays the same as the check
	base    []*report.Report // its baseline; none: it is made anew
}

// checkCommand makes the command muster load check.
func checkCommand() *cobra.Command {
	c := &check{}
	cmd := &cobra.Command{
		Use:   "check [NAME|FILE…]",
		Short: "Release check: compare the cost of results with the baseline",
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
decided). A pipeline with fewer than twenty answers in one of two compared phases is listed as not judged.`,
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
	f.StringVar(&c.out, "out", "bench/out", "folder of the reports; those of a check before are replaced")
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
	whole := time.Duration(0)
	for _, sc := range list {
		if err := clearRuns(c.out, sc.Name); err != nil {
			return err
		}
		whole += sc.Duration() * time.Duration(c.runs)
	}
	for i, sc := range list {
		c.say("== %d of %d: %s, %s; at most %s to go", i+1, len(list), sc.Name, sc.FullTitle(), whole.Round(time.Second))
		whole -= sc.Duration() * time.Duration(c.runs)
		if err := c.one(sc); err != nil {
			return c.verdict(err)
		}
	}
	if len(c.found) == 0 && !c.write {
		c.say("the release check passed: no figure that decides grew by more than is allowed")
	}
	return c.verdict(nil)
}

// one plays and judges one scenario. An error ends the check.
func (c *check) one(sc checked) error {
	if err := c.preflight(sc.Scenario); err != nil {
		return err
	}
	var runs []*report.Report
	var table string
	var found finding
	for upTo := c.runs; ; upTo = attempts {
		var err error
		if runs, err = c.several(sc.Scenario, runs, upTo); err != nil {
			return err
		}
		if table, found = judgeRuns(sc, runs); !found.again() || len(runs) >= attempts {
			break
		}
		c.say("%s is played again: %s", sc.Name, strings.Join(found.sentences, "; "))
	}
	fmt.Fprint(c.cmd.OutOrStdout(), table)
	for _, users := range gate.NotJudged(runs) {
		c.say("%s: not judged: %s", sc.Name, users)
	}
	switch {
	case found.code != 0:
		c.found = append(c.found, found)
	case c.write:
		return gate.Write(c.baseline, sc.Name, runs)
	}
	return nil
}

// finding is the reason for which runs of a scenario fail.
type finding struct {
	sentences []string
	code      int    // exitLost, exitMissed; 0: nothing is wrong
	grew      bool   // a figure grew by more than is allowed, or was not compared
	starved   bool   // a pipeline was starved
	command   string // plays the scenario
}

// again reports whether more runs may show that nothing is wrong. They do not undo losses, failed requests or refused results.
func (f finding) again() bool { return f.code == exitMissed && (f.grew || f.starved) }

// judgeRuns compares runs of a scenario with its baseline. Losses come first. Figures of a run whose generator fell behind
// mean nothing: such a run is only there for its losses.
func judgeRuns(sc checked, runs []*report.Report) (table string, f finding) {
	f.command = sc.command
	add := func(code int, sentences ...string) {
		for _, text := range sentences {
			f.code, f.sentences = max(f.code, code), append(f.sentences, sc.Name+": "+text)
		}
	}
	if i := slices.IndexFunc(runs, (*report.Report).Lost); i >= 0 {
		add(exitLost, strings.Join(runs[i].Verdict, "; "))
	} else if i := slices.IndexFunc(runs, func(r *report.Report) bool { return len(r.Failed()) > 0 }); i >= 0 {
		add(exitMissed, strings.Join(runs[i].Failed(), "; "))
	}
	if slices.ContainsFunc(runs, func(r *report.Report) bool { return !r.Valid }) {
		return "", f
	}
	starved := gate.Starved(runs)
	f.starved = len(starved) > 0
	add(exitMissed, starved...)
	if len(sc.base) == 0 {
		return "", f
	}
	compared := compare.Within(compare.Set{Name: "baseline", Runs: sc.base}, compare.Set{Name: "now", Runs: runs}, gate.Limits())
	for _, r := range compared.Regressed() {
		f.grew = true
		add(exitMissed, r.Sentence())
	}
	return compared.Text(), f
}

// scenarios returns the named scenarios with their baselines, or all of the release check if none is named.
func (c *check) scenarios(args []string) (list []checked, err error) {
	if len(args) == 0 {
		args = gate.Names()
	}
	for _, name := range args {
		sc := checked{command: "muster load run " + name}
		if known, ok := gate.Find(name); ok {
			sc.command = fmt.Sprintf("%s --quick --scale %g", sc.command, known.Scale)
			sc.Scenario, err = known.Load(scenario.ThisMachine())
		} else if _, missing := os.Stat(name); missing != nil {
			return nil, model.Errorf(model.NotFound, "%s is no scenario of the release check, and no file", name).
				WithHint("they are %s", strings.Join(gate.Names(), ", "))
		} else if sc.Scenario, err = scenario.Load(name); err == nil {
			err = sc.Runs()
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(other checked) bool { return other.Name == sc.Name }) {
			return nil, model.Errorf(model.Invalid, "%s is there twice, and would have one folder for its reports", sc.Name).
				WithHint("leave one out, or give its file another name")
		}
		sc.Objectives = nil // most are times
		for i := range sc.Phases {
			sc.Phases[i].Objectives = nil
		}
		list = append(list, sc)
	}
	for i := range list {
		if c.write {
			break
		}
		if list[i].base, err = gate.Read(c.baseline, list[i].Scenario); err != nil {
			return nil, err
		}
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

// clearRuns removes the runs of a scenario that former checks left.
func clearRuns(out, name string) error {
	for n := range maxRuns {
		run := fmt.Sprintf("%s-%d", name, n+1)
		for _, path := range []string{filepath.Join(out, run), filepath.Join(out, invalidRuns, run)} {
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

// verdict returns the error of a check with findings, losses first. because is the error that ended the check early, or nil.
func (c *check) verdict(because error) error {
	slices.SortStableFunc(c.found, func(a, b finding) int { return b.code - a.code })
	var all []string
	for _, f := range c.found {
		all = append(all, f.sentences...)
	}
	switch {
	case len(all) == 0:
		return because
	case because == nil:
		err := model.Errorf(model.Invalid, "the release check failed:\n  %s", strings.Join(all, "\n  "))
		if i := slices.IndexFunc(c.found, func(f finding) bool { return f.grew }); i >= 0 && c.found[0].code != exitLost {
			err = err.WithHint("GODEBUG=memprofilerate=4096 %s leaves profiles; if the cost is meant, muster load check --baseline DIR --write makes the baseline anew (in the source tree make bench BASELINE=write: bench/README.md)", c.found[i].command)
		}
		return &failed{err, c.found[0].code}
	case c.found[0].code == exitLost:
		return &failed{model.Errorf(model.Invalid, "the release check failed, and could not go on (%w):\n  %s", because, strings.Join(all, "\n  ")), exitLost}
	}
	c.say("until then: %s", strings.Join(all, "\n  "))
	return because
}
