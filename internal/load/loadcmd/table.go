package loadcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/report"
)

func tableCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "table FILE…",
		Short:   "Show reports side by side, as Markdown",
		Example: "  muster load table bench/results/rate-16k.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := report.Markdown(args)
			fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
}
