package loadcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// leg is one run of one side.
type leg struct {
	side int
	run  int // of that side, from 1
}

// order plays every side once in each round, and every other round backwards, so that no
// side always goes first, and a machine that gets slower and slower is nobody's
// disadvantage: A B, B A, A B …
func order(sides, runs int) (legs []leg) {
	for run := range runs {
		for i := range sides {
			if run%2 == 1 {
				i = sides - 1 - i
			}
			legs = append(legs, leg{i, run + 1})
		}
	}
	return legs
}

// repeated are the invalid runs, below the folder of them all.
const repeated = "invalid"

// playLeg plays a scenario once, on a server of its own, into the folder OUT/NAME. A run
// whose generator fell behind says nothing of speed: it is moved to OUT/invalid/NAME and repeated
// once. What it lost is lost all the same: such a run stays. Without a report nothing is left. Where
// somebody asked for the end of a run before, nothing is played.
func playLeg(signals *stops, out, name string, say func(string, ...any), play func(kept *folder.Folder) (*report.Report, error)) (rep *report.Report, err error) {
	path, aside := filepath.Join(out, name), filepath.Join(out, repeated, name)
	once := func() (*report.Report, error) {
		kept, err := folder.Make(path)
		if err != nil {
			return nil, err
		}
		rep, err := play(kept)
		if rep == nil {
			kept.Discard()
		}
		return rep, unkept(rep, err)
	}
	if err = signals.next(name); err != nil {
		return nil, err
	}
	if rep, err = once(); err != nil {
		return rep, err
	}
	if rep.Stopped != nil {
		return nil, stoppedLeg(name, path, rep)
	}
	if rep.Valid || rep.Lost() {
		return rep, nil
	}
	if err = os.MkdirAll(filepath.Dir(aside), 0o755); err == nil {
		err = os.Rename(path, aside)
	}
	if err != nil {
		return nil, fmt.Errorf("put an invalid run aside: %w", err)
	}
	if err = signals.next(name + " once more"); err != nil {
		say("%s is kept as %s: %s", name, aside, strings.Join(rep.Verdict, "; "))
		return nil, err
	}
	say("%s is kept as %s and repeated: %s", name, aside, strings.Join(rep.Verdict, "; "))
	if rep, err = once(); err == nil && rep.Stopped != nil {
		return nil, stoppedLeg(name, path, rep)
	}
	return rep, err
}

// stoppedLeg ends what a stopped run is a part of: its figures are of less than those of the others.
// What was lost until then is told all the same.
func stoppedLeg(name, path string, rep *report.Report) error {
	if rep.Lost() {
		return &failed{model.Errorf(model.Invalid, "%s was %s, and until then: %s; its report is in %s", name, rep.Stopped, strings.Join(rep.Wrong().Sentences(), "; "), path), exitLost}
	}
	return &failed{model.Errorf(model.Unavailable, "%s was %s; its report is in %s", name, rep.Stopped, path), exitStopped}
}

// leg plays a scenario for one side.
func (o *options) leg(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, s side, kept *folder.Folder, say func(string, ...any)) (*report.Report, error) {
	own := *o
	own.binary, own.flags, own.unprofiled = s.program, s.flags, true
	return own.against(ctx, cmd, sc, kept, say)
}

// left is how long some more legs take: as long as those before them, or as the scenario
// says.
func left(sc *scenario.Scenario, began time.Time, done, all int, now time.Time) time.Duration {
	each := sc.Duration() - time.Duration(sc.Phases[len(sc.Phases)-1].Drain) // which ends at once, as a rule
	if done > 0 {
		each = now.Sub(began) / time.Duration(done)
	}
	return (each * time.Duration(all-done)).Round(time.Second)
}
