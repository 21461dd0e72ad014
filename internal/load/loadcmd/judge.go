package loadcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	file, err := os.Open(filepath.Join(dir, observationLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, model.Errorf(model.NotFound, "there is no %s in %s", observationLog, dir).WithHint("give a folder that muster load run wrote")
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return observe.Read(file)
}

// judgeAgain judges the log of a run.
func judgeAgain(dir string, lines []observe.Line) (*report.Report, error) {
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
