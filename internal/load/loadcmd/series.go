package loadcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// begin catches signals for the command. The caller calls release.
func (o *runner) begin(cmd *cobra.Command) (release func()) {
	o.cmd, o.say = cmd, sayTo(cmd.ErrOrStderr())
	o.ctx, o.stops = catchSignals(cmd, o.say)
	return o.stops.release
}

// invalidRuns is the folder of repeated runs, in the folder of all runs.
const invalidRuns = "invalid"

// play plays a scenario into the folder name. A run whose generator fell behind measures nothing: it moves to the folder
// invalid and is repeated once, unless it lost something. A stopped run ends the series.
func (o *runner) play(sc *scenario.Scenario, name string) (*report.Report, error) {
	return o.playInto(name, func(kept *folder.Folder) (*report.Report, error) { return o.against(sc, kept) })
}

// playInto plays one run into a folder, and moves an invalid one away.
func (o *runner) playInto(name string, play func(*folder.Folder) (*report.Report, error)) (rep *report.Report, err error) {
	path, aside := filepath.Join(o.out, name), filepath.Join(o.out, invalidRuns, name)
	for again := false; ; again = true {
		if err := o.stops.next(name); err != nil {
			return nil, err
		}
		kept, err := folder.Make(path)
		if err != nil {
			return nil, err
		}
		if rep, err = play(kept); rep == nil {
			kept.Discard()
		}
		switch {
		case err != nil:
			return rep, unsaved(rep, err)
		case rep.Stopped != nil && rep.Lost():
			return nil, &failed{model.Errorf(model.Invalid, "%s was %s, and until then: %s; its report is in %s", name, rep.Stopped, strings.Join(rep.Wrong().Sentences(), "; "), path), exitLost}
		case rep.Stopped != nil:
			return nil, &failed{model.Errorf(model.Unavailable, "%s was %s; its report is in %s", name, rep.Stopped, path), exitStopped}
		case rep.Valid || rep.Lost() || again:
			return rep, nil
		}
		if err = os.MkdirAll(filepath.Dir(aside), 0o755); err == nil {
			err = os.Rename(path, aside)
		}
		if err != nil {
			return nil, fmt.Errorf("move an invalid run: %w", err)
		}
		o.say("%s is kept as %s and repeated: %s", name, aside, strings.Join(rep.Verdict, "; "))
	}
}
