package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// valuesCommand makes the command muster debug values, which shows the load of the pipeline of values.
func valuesCommand(s *commandLine) *cobra.Command {
	period, most := model.Duration(2*time.Second), 5
	return s.buildCommand(command{
		use: "values", short: "Show values per second of each stage, the load of workers, and the items, steps, triggers and nodes that take most time",
		args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.Var(&durationFlag{&period}, "period", "time over which counters are compared")
			flags.IntVar(&most, "limit", most, "rows of items, of steps, of triggers and of nodes")
		},
		run: func(c *commandCall) error {
			before, err := c.api.ValueLoad(c.ctx)
			if err != nil {
				return err
			}
			if err := pause.For(c.ctx, time.Duration(period)); err != nil {
				return err
			}
			now, err := c.api.ValueLoad(c.ctx)
			if err != nil {
				return err
			}
			if c.Format.IsForPrograms() {
				return c.WriteValue(now)
			}
			return printValueLoad(c, &before, &now, most)
		},
	})
}

// printValueLoad prints the load of the pipeline of values: the rates between two readings of its counters, and the costs in
// the later one.
func printValueLoad(c *commandCall, before, now *v1.ValueLoad, most int) error {
	seconds := max(now.At.Sub(before.At).Seconds(), 0.001)
	stage := func(s v1.ValueStage) []any {
		rate := 0.0
		if i := slices.IndexFunc(before.Stages, func(b v1.ValueStage) bool { return b.Name == s.Name }); i >= 0 {
			rate = float64(s.Total-before.Stages[i].Total) / seconds
		}
		return []any{s.Name, strconv.FormatFloat(rate, 'f', 0, 64), s.Total}
	}
	worker := func(w v1.ValueWorker) []any {
		busy := 0.0
		if w.Number < len(before.Workers) {
			busy = (w.BusySeconds - before.Workers[w.Number].BusySeconds) / seconds
		}
		return []any{w.Number, percentOfOne(busy), w.Queued}
	}
	err := screen.NewTable(now.Stages, screen.SplitColumns("STAGE|PER SECOND|TOTAL"), stage).Write(c.Screen)
	c.Printf("\n")
	err = errors.Join(err, screen.NewTable(now.Workers, screen.SplitColumns("WORKER|BUSY|QUEUED"), worker).Write(c.Screen))
	for _, kind := range []string{"item", "step", "trigger", "node"} {
		costs := slices.DeleteFunc(slices.Clone(now.Costs), func(cost v1.ValueCost) bool { return cost.Kind != kind })
		if len(costs) == 0 {
			continue
		}
		c.Printf("\n")
		err = errors.Join(err, screen.NewTable(costs[:min(most, len(costs))], screen.SplitColumns(strings.ToUpper(kind)+"|PER SECOND|CPU|EACH"), costRow).Write(c.Screen))
	}
	return err
}

// costRow returns the cells of the cost of an item, a step, a trigger or a node.
func costRow(cost v1.ValueCost) []any {
	name := costName(cost)
	each := time.Duration(cost.Seconds / max(cost.Rate, 1e-9) * 1e9).Round(10 * time.Nanosecond)
	return []any{name, strconv.FormatFloat(cost.Rate, 'f', 0, 64), percentOfOne(cost.Seconds), each}
}

// costName returns the name of an item, a step or a trigger with its Template, or of a node.
func costName(cost v1.ValueCost) string {
	if cost.Template == "" {
		return cost.Name
	}
	return cost.Template + ":" + cost.Name
}

// percentOfOne formats a share of one CPU as percent.
func percentOfOne(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }
