package loadcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
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
			rep, err := judgeAgain(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s", rep.Title, rep.Text())
			return verdict(rep)
		},
	}
}

// judgeAgain judges the observation log in the folder of a run.
func judgeAgain(dir string) (*report.Report, error) {
	path := filepath.Join(dir, folder.ObservationLog)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, model.Errorf(model.NotFound, "there is no %s in %s", folder.ObservationLog, dir).WithHint("give a folder that muster load run wrote")
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, err := observe.Read(file)
	if err != nil {
		return nil, err
	}
	checks, err := observe.ReadChecks(lines)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "%s: %w", path, err).WithHint("play it again with this version")
	}
	rep, err := judge.Checks(checks)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "%s: %w", dir, err)
	}
	if rep.Title == "" && rep.Scenario != nil {
		entitle(rep, rep.Scenario.FullTitle())
	}
	return rep, nil
}
