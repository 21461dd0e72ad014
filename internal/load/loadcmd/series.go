package loadcmd

import (
	"context"
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

// series plays several runs, each on a server of its own, into folders of one folder: for compare, check and size.
type series struct {
	options
	cmd *cobra.Command
	ctx context.Context
	say func(format string, args ...any)
}

// begin catches signals for the command. The caller calls release.
func (s *series) begin(cmd *cobra.Command) (release func()) {
	s.cmd, s.say = cmd, sayTo(cmd.ErrOrStderr())
	s.ctx, s.stops = catchSignals(cmd, s.say)
	return s.stops.release
}

// invalidRuns is the folder of repeated runs, in the folder of all runs.
const invalidRuns = "invalid"

// play plays a scenario into the folder name. A run whose generator fell behind measures nothing: it moves to the folder
// invalid and is repeated once, unless it lost something. A stopped run ends the series.
func (s *series) play(sc *scenario.Scenario, name string) (*report.Report, error) {
	return s.playInto(name, func(kept *folder.Folder) (*report.Report, error) {
		run := s.options
		return run.against(s.ctx, s.cmd, sc, kept, s.say)
	})
}

// playInto plays one run into a folder, and moves an invalid one away.
func (s *series) playInto(name string, play func(*folder.Folder) (*report.Report, error)) (rep *report.Report, err error) {
	path, aside := filepath.Join(s.out, name), filepath.Join(s.out, invalidRuns, name)
	for again := false; ; again = true {
		if err := s.stops.next(name); err != nil {
			return nil, err
		}
		kept, err := folder.Make(path)
		if err != nil {
			return nil, err
		}
		if rep, err = play(kept); rep == nil {
			kept.Discard(observationLog)
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
		s.say("%s is kept as %s and repeated: %s", name, aside, strings.Join(rep.Verdict, "; "))
	}
}
