package loadcmd

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

func lintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE…",
		Short: "Say what is wrong with scenario files, without running them",
		Long: `Reads scenario files as muster load run does and says all that is wrong with them, with line and column and
what is allowed; recorded streams are read to their ends. - is the standard input.
docs/load-reference.md is the manual of the file.`,
		Example:       "  muster load lint mine.yaml",
		Args:          cobra.MinimumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var wrong []string
			for _, file := range args {
				data, err := readFile(cmd.InOrStdin(), file)
				if err != nil {
					return err
				}
				s, err := scenario.Parse(file, data)
				if err == nil {
					err = s.Verify()
				}
				if err != nil {
					wrong = append(wrong, err.Error())
					continue
				}
				s.Defaults()
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", file, s.Brief())
				for _, c := range s.Missing() {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: waits for %s: it comes with %s\n", file, c.Name, c.Waits)
				}
			}
			if len(wrong) > 0 {
				return model.Errorf(model.Invalid, "%s", strings.Join(wrong, "\n"))
			}
			return nil
		},
	}
}

func readFile(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("read the standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, scenario.ReadError(file, err)
	}
	return data, nil
}
