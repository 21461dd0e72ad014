package loadcmd

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/model"
)

// interleave plays the runs of a comparison alternately: muster load compare --interleave.
type interleave struct {
	runner
	on   bool
	a, b string
	runs int
}

// add adds the flags of --interleave.
func (i *interleave) add(f *pflag.FlagSet) {
	f.StringVar(&i.a, "a", "", "with --interleave: the base, 'NAME: PROGRAM FLAG…', any of them left out; default: this program")
	f.StringVar(&i.b, "b", "", "with --interleave: the other, likewise")
	f.IntVar(&i.runs, "runs", 5, "with --interleave: of each")
	f.BoolVar(&i.quick, "quick", false, "with --interleave: the scenario's quick form, a minute each")
	f.Float64Var(&i.scale, "scale", 0, "with --interleave: so many times the agents, such as 0.1")
	f.Uint64Var(&i.seed, "seed", 0, "with --interleave: same seed, same timetable; default: the scenario's")
	f.DurationVar(&i.config.MaxLag, "max-lag", 0, "with --interleave: generator lag (p99) that makes a run invalid; it is repeated once; default: that of muster load run")
	f.StringVar(&i.out, "out", "", "with --interleave: the folder of all runs; default: muster-load/NAME-interleaved-TIME")
	f.BoolVar(&i.on, "interleave", false, "play a SCENARIO with two servers alternately, each run on a fresh one, and compare those runs")
}

// check checks the arguments.
func (i *interleave) check(cmd *cobra.Command, args []string) error {
	switch {
	case i.on && len(args) != 1:
		return model.Errorf(model.Invalid, "--interleave plays one scenario, and has %d", len(args)).WithHint("muster load compare --interleave muster-mixed --quick --b 'new: bin/muster'")
	case i.on && (i.runs < 1 || i.runs > 1000):
		return model.Errorf(model.Invalid, "--runs %d: want 1 to 1000; five and more give an interval", i.runs)
	case i.on:
		return noServer(cmd, args[0])
	case len(args) < 2:
		return model.Errorf(model.Invalid, "a comparison needs two runs or more, the base first, and has %d", len(args)).
			WithHint("such as muster load compare old/ new/, or old/run.json new/run.json; muster load report shows one run")
	}
	return refuseFlags(cmd.Flags(), map[string]bool{"with --interleave": false})
}

// compare plays alternately, then compares the finished runs, also after Ctrl-C.
func (i *interleave) compare(cmd *cobra.Command, o *compareOptions, nameOrFile string) error {
	defer i.begin(cmd)()
	sets, err := i.playAll(nameOrFile)
	err = i.stops.explain(err)
	if len(sets) == 0 || len(sets[0].Runs) == 0 || len(sets[1].Runs) == 0 {
		return err
	}
	shown := o.compare(cmd.OutOrStdout(), sets)
	if endsWith(shown, exitLost) && !endsWith(err, exitLost) {
		return shown
	}
	return cmp.Or(err, shown)
}

// playAll returns the runs of each side, also those before an error. Each round plays both sides, every other round
// backwards: a machine that gets slower favours no side.
func (i *interleave) playAll(nameOrFile string) ([]compare.Set, error) {
	sides := make([]side, 2)
	for n, text := range []string{i.a, i.b} {
		var err error
		if sides[n], err = newSide(text, "ab"[n:n+1]); err != nil {
			return nil, err
		}
	}
	if sides[0].name == sides[1].name {
		return nil, model.Errorf(model.Invalid, "both sides are called %s", sides[0].name).WithHint("%s", sideHint)
	}
	sc, err := i.scenario(nameOrFile)
	if err != nil {
		return nil, err
	}
	if sc.AgainstSensu() {
		return nil, model.Errorf(model.Unsupported, "%s is played against %s, and --interleave starts servers of its own", sc.Name, sc.Target).WithHint("play it with muster load run, then muster load compare the folders")
	}
	if err := i.preflight(sc); err != nil {
		return nil, err
	}
	if i.out == "" {
		i.out = folder.Name(sc.Name+"-interleaved", time.Now())
	}
	defer func() { i.say("the runs are in %s", i.out) }()
	sets := []compare.Set{{Name: sides[0].name}, {Name: sides[1].name}}
	i.say("%s\n%s", sides[0], sides[1])
	for leg := range 2 * i.runs {
		n, run := (leg+leg/2)%2, leg/2+1
		i.say("leg %d of %d: %s, run %d of %d; at most %s to go", leg+1, 2*i.runs, sides[n].name, run, i.runs, (sc.Duration() * time.Duration(2*i.runs-leg)).Round(time.Second))
		i.binary, i.runner.flags, i.unprofiled = sides[n].program, sides[n].flags, true
		rep, err := i.play(sc, filepath.Join(sides[n].name, fmt.Sprint(run)))
		if err != nil {
			return sets, err
		}
		sets[n].Runs = append(sets[n].Runs, rep)
	}
	return sets, nil
}

// side is one server of a comparison, and its settings.
type side struct {
	name    string // of its folder, and of its column
	program string // empty: this one
	flags   []string
}

const sideHint = "a side is 'NAME: PROGRAM FLAG…', any of them left out, such as --a 'old: /opt/old/muster' --b 'new: --snapshot-cycle=30s'"

// newSide parses [NAME:] [PROGRAM] [FLAG…], words between blanks. A relative program is in this folder, or in the PATH.
func newSide(text, name string) (side, error) {
	s := side{name: name}
	words := strings.Fields(text)
	if len(words) > 0 && strings.HasSuffix(words[0], ":") {
		s.name, words = strings.TrimSuffix(words[0], ":"), words[1:]
	}
	if s.name != filepath.Base(s.name) || strings.Trim(s.name, ".") == "" || s.name == invalidRuns {
		return s, model.Errorf(model.Invalid, "--%s %q: %q is no name of a folder, or that of the invalid runs", name, text, s.name).WithHint("%s", sideHint)
	}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		found, err := exec.LookPath(words[0])
		if err == nil {
			found, err = filepath.Abs(found)
		}
		if err != nil {
			return s, model.Errorf(model.NotFound, "--%s %q: %w", name, text, err).WithHint("%s", sideHint)
		}
		s.program, words = found, words[1:]
	}
	s.flags = words
	return s, nil
}

// String returns the command of the side.
func (s side) String() string {
	return s.name + ": " + strings.Join(append([]string{cmp.Or(s.program, "this program")}, s.flags...), " ")
}
