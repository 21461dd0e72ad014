package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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
			rates := compareValueLoads(&before, &now, most)
			if c.Format.IsForPrograms() {
				return c.WriteValue(rates)
			}
			return printValueRates(c, rates)
		},
	})
}

// valueRates is the load of the item value pipeline, computed from two readings of its counters. Tables and -o
// json show it.
type valueRates struct {
	Seconds  float64      `json:"seconds"` // between the readings
	Stages   []stageRate  `json:"stages"`  // from the first to the last
	Workers  []workerLoad `json:"workers"`
	Items    []valueCost  `json:"items"` // the slowest first, as in the lists below
	Steps    []valueCost  `json:"steps"`
	Triggers []valueCost  `json:"triggers"`
	Nodes    []valueCost  `json:"nodes"`
}

// stageRate is the rate of item values through one processing stage, with the stage's total count.
type stageRate struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"perSecond"`
	Total     uint64  `json:"total"`
}

// workerLoad is how busy one worker goroutine for item values is.
type workerLoad struct {
	Number int     `json:"number"`
	CPU    float64 `json:"cpu"` // share of one CPU
	Queued int     `json:"queued"`
}

// valueCost is the CPU time that an item, step, trigger or node cost in the last minute.
type valueCost struct {
	Namespace string  `json:"namespace"`
	Template  string  `json:"template,omitempty"`
	Name      string  `json:"name"`
	PerSecond float64 `json:"perSecond"` // values or evaluations
	CPU       float64 `json:"cpu"`       // share of one CPU
	Seconds   float64 `json:"seconds"`   // seconds of one value or evaluation
}

// compareValueLoads computes the rates of the item value pipeline from two readings of its counters. The
// largest costs of each kind come from the later reading.
func compareValueLoads(before, now *v1.ValueLoad, most int) *valueRates {
	r := &valueRates{Seconds: max(now.At.Sub(before.At).Seconds(), 0.001), Items: []valueCost{}, Steps: []valueCost{}, Triggers: []valueCost{}, Nodes: []valueCost{}}
	for _, s := range now.Stages {
		one := stageRate{Name: s.Name, Total: s.Total}
		if i := slices.IndexFunc(before.Stages, func(b v1.ValueStage) bool { return b.Name == s.Name }); i >= 0 && s.Total > before.Stages[i].Total {
			one.PerSecond = float64(s.Total-before.Stages[i].Total) / r.Seconds
		}
		r.Stages = append(r.Stages, one)
	}
	for _, w := range now.Workers {
		one := workerLoad{Number: w.Number, Queued: w.Queued}
		if w.Number < len(before.Workers) {
			one.CPU = max(w.BusySeconds-before.Workers[w.Number].BusySeconds, 0) / r.Seconds
		}
		r.Workers = append(r.Workers, one)
	}
	lists := map[string]*[]valueCost{"item": &r.Items, "step": &r.Steps, "trigger": &r.Triggers, "node": &r.Nodes}
	for _, c := range now.Costs {
		if list := lists[c.Kind]; list != nil && len(*list) < most {
			*list = append(*list, valueCost{c.Namespace, c.Template, c.Name, c.Rate, c.Seconds, c.Seconds / max(c.Rate, 1e-9)})
		}
	}
	return r
}

// printValueRates prints the load of the pipeline of values.
func printValueRates(c *commandCall, r *valueRates) error {
	stage := func(s stageRate) []any { return []any{s.Name, strconv.FormatFloat(s.PerSecond, 'f', 0, 64), s.Total} }
	worker := func(w workerLoad) []any { return []any{w.Number, cpuPercentText(w.CPU), w.Queued} }
	err := screen.NewTable(r.Stages, screen.SplitColumns("STAGE|PER SECOND|TOTAL"), stage).Write(c.Screen)
	c.Printf("\n")
	err = errors.Join(err, screen.NewTable(r.Workers, screen.SplitColumns("WORKER|BUSY|QUEUED"), worker).Write(c.Screen))
	for _, of := range []struct {
		title string
		costs []valueCost
	}{{"ITEM", r.Items}, {"STEP", r.Steps}, {"TRIGGER", r.Triggers}, {"NODE", r.Nodes}} {
		if len(of.costs) > 0 {
			c.Printf("\n")
			err = errors.Join(err, screen.NewTable(of.costs, screen.SplitColumns(of.title+"|PER SECOND|CPU|EACH"), costRow).Write(c.Screen))
		}
	}
	return err
}

// costRow returns the table cells about the CPU cost of one item, preprocessing step, trigger or node.
func costRow(cost valueCost) []any {
	each := time.Duration(cost.Seconds * 1e9).Round(10 * time.Nanosecond)
	return []any{costName(cost.Template, cost.Name), strconv.FormatFloat(cost.PerSecond, 'f', 0, 64), cpuPercentText(cost.CPU), each}
}

// costName formats the name in a cost row, with the Template for items, steps and triggers.
func costName(template, name string) string {
	if template == "" {
		return name
	}
	return template + ":" + name
}

// cpuPercentText formats a share of one CPU core in percent.
func cpuPercentText(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }
