package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// rolloutCommand makes the command group muster rollout.
func rolloutCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{use: "rollout", short: "Watch and steer how changes of directives reach their nodes", commands: []*cobra.Command{
		rolloutListCommand(s), rolloutShowCommand(s),
		rolloutActionCommand(s, "approve", "Approve the roll-out of another person; it begins"),
		rolloutActionCommand(s, "start", "Continue a paused or stopped roll-out; nodes that have failed count no more"),
		rolloutActionCommand(s, "pause", "Begin no further step; failures still stop the roll-out"),
		rolloutActionCommand(s, "stop", "Freeze a roll-out: each node keeps the version that it has"),
		rolloutActionCommand(s, "undo", "Give all nodes, and the directive, the version before the roll-out"),
	}})
}

// rolloutListCommand makes the command muster rollout list.
func rolloutListCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "list", short: "List the last roll-out of each directive, those under way first", args: cobra.NoArgs,
		run: readAndPrintList(func(c *commandCall) (listOutput[v1.Rollout], error) {
			list, err := c.api.Rollouts.List(c.ctx, c.listNamespace())
			return listOutput[v1.Rollout]{
				value: list, items: list.Items, empty: "no directive has had a roll-out. Declare its steps: muster explain directive.rollout",
				columns: screen.SplitColumns("NAMESPACE|DIRECTIVE|STATE|STEP|NEW|FAILED|BY|BEGAN|REASON").HideUnless(c.allNamespaces, "NAMESPACE"),
				row: func(r v1.Rollout) []any {
					return []any{r.Namespace, r.Directive, rolloutState(&r), currentStep(&r), fmt.Sprintf("%d of %d", r.New, r.Nodes), r.Failed, r.By, c.AgeText(r.StartedAt), cmp.Or(screen.CutToWidth(r.Reason, 80), "-")}
				},
			}, err
		}),
	})
}

// rolloutState returns the state of a roll-out as a coloured cell.
func rolloutState(r *v1.Rollout) screen.Cell {
	cell := screen.Cell{Text: r.State}
	switch model.RolloutState(r.State) {
	case model.RolloutStopped:
		cell.Colour = screen.Red
	case model.RolloutRequested, model.RolloutPaused, model.RolloutUndone:
		cell.Colour = screen.Yellow
	default:
		cell.Colour = screen.Green
	}
	return cell
}

// currentStep returns the last begun step of a roll-out, such as "10% (2 of 4)".
func currentStep(r *v1.Rollout) string {
	begun := 0
	for begun < len(r.Steps) && !r.Steps[begun].StartedAt.IsZero() {
		begun++
	}
	if begun == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%d of %d)", r.Steps[begun-1].Step, begun, len(r.Steps))
}

// rolloutShowCommand makes the command muster rollout show.
func rolloutShowCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "show DIRECTIVE", short: "Show the steps, the progress and the failures of a roll-out",
		args: cobra.ExactArgs(1), complete: s.completeNames(kind.Directive().KindInfo),
		run: fetchAndPrint(func(c *commandCall) (v1.Rollout, error) {
			namespace, name, err := c.findObject(kind.Directive().KindInfo, c.args[0])
			if err != nil {
				return v1.Rollout{}, err
			}
			return c.api.Rollouts.Get(c.ctx, namespace, name)
		}, printRollout),
	})
}

// printRollout prints a roll-out for people.
func printRollout(c *commandCall, r v1.Rollout) {
	c.printField("directive", "%s", nameWithNamespace(r.Namespace, r.Directive))
	c.printField("state", "%s", rolloutState(&r))
	c.printNonEmptyField("reason", r.Reason)
	c.printField("change", "by %s, %s; before it: revision %d", r.By, c.TimeAndAge(r.StartedAt), r.Base)
	c.printNonEmptyField("approved", textWhen(r.Approver != "", "by "+r.Approver))
	c.printField("limits", "at least %s from step to step, stops above %s failed", r.Wait, r.MaxFailed)
	for _, step := range r.Steps {
		text := "waits"
		if !step.StartedAt.IsZero() {
			text = fmt.Sprintf("%s, %s", model.CountNoun(step.Nodes, "node"), c.TimeAndAge(step.StartedAt))
		}
		c.printField("step", "%-6s %s", step.Step, text)
	}
	text := fmt.Sprintf("%d of %s have the new version", r.New, model.CountNoun(r.Nodes, "node"))
	if r.State != string(model.RolloutDone) && r.State != string(model.RolloutUndone) {
		parts := []string{text, fmt.Sprintf("%d reported", r.Reported), fmt.Sprintf("%d failed", r.Failed)}
		if r.Unreported > 0 {
			parts = append(parts, fmt.Sprintf("%d awaited", r.Unreported))
		}
		if r.Excused > 0 {
			parts = append(parts, fmt.Sprintf("%d not counted: they failed or were away before", r.Excused))
		}
		c.printField("nodes", "%s", strings.Join(parts, ", "))
	}
	for _, f := range r.Failures {
		c.printField("failed", "%s  %s", f.Node, f.Reason)
	}
	if more := r.Failed - len(r.Failures); more > 0 {
		c.printField("failed", "and %d more", more)
	}
}

// rolloutActionCommand makes one of the commands that change a roll-out.
func rolloutActionCommand(s *commandLine, verb, short string) *cobra.Command {
	var action v1.RolloutAction
	return s.buildCommand(command{
		use: verb + " DIRECTIVE", short: short, args: cobra.ExactArgs(1), complete: s.completeNames(kind.Directive().KindInfo), oneNamespace: true,
		flags: func(flags *pflag.FlagSet) {
			registerMessageFlag(flags, &action.Message, "reason, recorded with the change")
			if verb == "undo" {
				flags.Int64Var(&action.To, "to", 0, "go back to this revision (muster audit), as a change of its own; default: the one before the roll-out")
			}
		},
		run: func(c *commandCall) error {
			namespace, name, err := c.findObject(kind.Directive().KindInfo, c.args[0])
			if err != nil {
				return err
			}
			r, err := c.api.Rollouts.Do(c.ctx, verb, namespace, name, action)
			if err != nil {
				return err
			}
			return c.printValue(r, func() {
				c.Printf("%s\n", strings.TrimSuffix(fmt.Sprintf("the roll-out of %s is %s: %s", c.args[0], r.State, r.Reason), ": "))
			})
		},
	})
}
