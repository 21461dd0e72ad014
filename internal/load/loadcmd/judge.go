package loadcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// The file of the observation log in a run's folder, and its description.
const (
	observationLog      = "observed.jsonl"
	observationLogTitle = "observations of the loader: muster load judge judges them again"
)

// judgeCommand makes the command muster load judge.
func judgeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "judge FOLDER",
		Short: "Judge a run again, also one whose loader was killed",
		Long: `Reads the observation log that muster load run left in its folder (observed.jsonl), and judges it again;
nothing is played. The log of a killed loader ends with its last second. The exit codes are the same as
those of muster load run.`,
		Example: "  muster load judge muster-load/sensu-4000x40x5s-quick-20261122-185606",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := linesIn(args[0])
			if err != nil {
				return err
			}
			rep, err := judgeAgain(args[0], lines)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s", rep.Title, rep.Text())
			return verdict(rep)
		},
	}
}

// linesIn reads the observation log of a folder.
func linesIn(dir string) ([]observe.Line, error) {
	lines, err := readLog(filepath.Join(dir, observationLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, model.Errorf(model.NotFound, "there is no %s in %s", observationLog, dir).WithHint("give a folder that muster load run wrote")
	}
	return lines, err
}

// judgeAgain judges the log of a run.
func judgeAgain(dir string, lines []observe.Line) (*report.Report, error) {
	if n := slices.IndexFunc(lines, func(l observe.Line) bool { return l.Start != nil }); n >= 0 {
		if lines[n].Start.Scenario == nil {
			return nil, model.Errorf(model.Invalid, "the log has no scenario").WithHint("play it again with this version")
		}
		of, err := signalsOf(lines[n].Start.Scenario)
		if err != nil {
			return nil, err
		}
		return of.report(lines), nil
	}
	checks, err := observe.ReadChecks(lines)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "%s: %w", filepath.Join(dir, observationLog), err).WithHint("play it again with this version")
	}
	rep, err := judge.Checks(checks)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "%s: %w", dir, err)
	}
	if rep.Title == "" && rep.Scenario != nil {
		rep.Title = rep.Scenario.FullTitle()
		if rep.Stopped != nil {
			rep.Title += ", " + rep.Stopped.String()
		}
	}
	return rep, nil
}
