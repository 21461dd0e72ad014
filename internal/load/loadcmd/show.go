package loadcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

func showCommand() *cobra.Command {
	var quick bool
	scale := 1.0
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Show a scenario with its defaults filled in, and what it needs",
		Long: `Prints the scenario as it would be played: what the file leaves out is filled in, and --quick and --scale
have done their work. What it prints is a scenario file again; how large it is stands at its head, as a
comment.`,
		Example: "  muster load show sensu-4000x40x5s\n  muster load show sensu-4000x40x5s --quick\n" +
			"  muster load show muster-mixed >mine.yaml",
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return scenario.Names(), cobra.ShellCompDirectiveDefault
		},
	}
	format := formatFlag(cmd, "yaml", "yaml", "json")
	cmd.Flags().BoolVar(&quick, "quick", false, "as many agents as this machine carries easily, measured for a minute")
	cmd.Flags().Float64Var(&scale, "scale", 1, "so many times its agents: 0.1, 2")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := loadAs(args[0], scale, quick)
		if err != nil {
			return err
		}
		if format.name == "yaml" {
			for line := range strings.Lines(s.Describe()) {
				fmt.Fprintf(cmd.OutOrStdout(), "# %s", line)
			}
			for _, c := range s.Missing() {
				fmt.Fprintf(cmd.OutOrStdout(), "# Waits for %s: it comes with %s.\n", c.Name, c.Waits)
			}
		}
		return format.print(cmd.OutOrStdout(), s.File())
	}
	return cmd
}
