package loadcmd

import (
	"bytes"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

func newCommand() *cobra.Command {
	var u scenario.Uniform
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Write a scenario of equal agents, as a beginning of your own",
		Long: `Writes a scenario file to the standard output: equal agents with equal checks, a ramp, one measured phase and
a drain. Edit it, play it with muster load run FILE. docs/load-reference.md names what else it may have.`,
		Example:       "  muster load new --agents 2000 --checks 40 --interval 5s >mine.yaml\n  muster load run mine.yaml",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var text bytes.Buffer
			sc := u.Scenario()
			sc.Name = "" // the file's own
			if err := (&format{name: "yaml"}).print(&text, sc); err != nil {
				return err
			}
			if _, err := scenario.Parse("new.yaml", text.Bytes()); err != nil {
				return err
			}
			_, err := text.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&u.Agents, "agents", 100, "agents")
	f.IntVar(&u.Checks, "checks", 40, "checks of each agent")
	f.DurationVar(&u.Interval, "interval", 5*time.Second, "interval of every check")
	f.IntVar(&u.OutputBytes, "output-bytes", 100, "length of each output; all differ")
	f.Float64Var(&u.Changes, "status-changes", 0.02, "share of results that change the status; those leave at once")
	f.DurationVar(&u.Steady, "duration", time.Minute, "measured time")
	f.DurationVar(&u.Warmup, "warmup", 5*time.Second, "time before it that is not measured")
	f.BoolVar(&u.TLS, "tls", false, "mutual TLS")
	f.Uint64Var(&u.Seed, "seed", 0, "same seed, same nodes and timetable")
	return cmd
}
