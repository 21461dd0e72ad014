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
		rolloutListCommand(s), rolloutShowCommand(s), rolloutRequestsCommand(s),
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

// rolloutRequestsCommand makes the command muster rollout requests.
func rolloutRequestsCommand(s *commandLine) *cobra.Command {
	printOne := fetchAndPrint(func(c *commandCall) (v1.ReviewRequest, error) {
		list, err := c.api.Rollouts.Requests(c.ctx, "")
		if err != nil {
			return v1.ReviewRequest{}, err
		}
		var found []string
		for i := range list.Items {
			if id := list.Items[i].ID; id != "" && strings.HasPrefix(id, c.args[0]) {
				found = append(found, id)
			}
		}
		if len(found) != 1 {
			return v1.ReviewRequest{}, model.Errorf(model.NotFound, "%s have an id that begins with %s", model.CountNoun(len(found), "open request"), c.args[0]).
				WithHint("list the requests: muster rollout requests")
		}
		return c.api.Rollouts.Request(c.ctx, found[0])
	}, printReviewRequest)
	printAll := readAndPrintList(func(c *commandCall) (listOutput[v1.ReviewRequest], error) {
		list, err := c.api.Rollouts.Requests(c.ctx, c.listNamespace())
		return listOutput[v1.ReviewRequest]{
			value: list, items: list.Items, empty: "no change awaits the approval of another person",
			columns: screen.SplitColumns("REQUEST|BY|ASKED|ENDS|NODES|CHANGES|APPROVE"),
			row: func(q v1.ReviewRequest) []any {
				return []any{cmp.Or(q.ID[:min(len(q.ID), shortRequestID)], "roll-out"), q.By, c.AgeText(q.At), c.TimeUntil(q.Until), q.NodeCount, screen.CutToWidth(changesText(&q), 60), q.Command}
			},
		}, err
	})
	return s.buildCommand(command{
		use: "requests [REQUEST]", short: "List the changes that await the approval of another person, or show one with its differences", args: cobra.MaximumNArgs(1),
		run: func(c *commandCall) error {
			if len(c.args) == 1 {
				return printOne(c)
			}
			return printAll(c)
		},
	})
}

// shortRequestID is the number of characters of a request's id in a list.
const shortRequestID = 12

// changesText describes the resources in a change request, such as "policy/web updated, group/db deleted".
func changesText(q *v1.ReviewRequest) string {
	var parts []string
	for _, change := range q.Changes {
		parts = append(parts, resourceRefText(change.Kind, change.Namespace, change.Name)+" "+change.Op)
	}
	if more := q.Count - len(q.Changes); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// printReviewRequest prints, as text, a change that awaits the approval of another person.
func printReviewRequest(c *commandCall, q v1.ReviewRequest) {
	c.printField("request", "%s", q.ID)
	c.printField("by", "%s, %s%s", q.By, c.TimeAndAge(q.At), textIf(q.Message != "", ": "+q.Message))
	text := model.CountNoun(q.NodeCount, "node")
	if len(q.Nodes) > 0 {
		text += ": " + strings.Join(q.Nodes, ", ") + textIf(q.NodeCount > len(q.Nodes), ", …")
	}
	c.printField("nodes", "%s", text)
	c.printField("approve", "another administrator types until %s: %s", c.TimeAndAge(q.Until), q.Command)
	for _, change := range q.Changes {
		c.printField("change", "%s %s", resourceRefText(change.Kind, change.Namespace, change.Name), change.Op)
		for line := range strings.Lines(change.Diff) {
			c.Printf("    %s\n", screen.CleanLine(strings.TrimSuffix(line, "\n")))
		}
	}
	if more := q.Count - len(q.Changes); more > 0 {
		c.printField("change", "and %d more", more)
	}
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

// currentStep formats the newest begun step of a roll-out and its number, such as "10% (2 of 4)".
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
	c.printNonEmptyField("approved", textIf(r.Approver != "", "by "+r.Approver))
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
	if len(r.First) > 0 && r.New < r.Nodes {
		c.printField("on", "%s%s", strings.Join(r.First, ", "), textIf(r.Nodes > len(r.First), ", …"))
	}
	for _, line := range r.Differences {
		c.printField("differs", "%s", line)
	}
	for _, f := range r.Failures {
		c.printField("failed", "%s  %s", f.Node, f.Reason)
	}
	if more := r.Failed - len(r.Failures); more > 0 {
		c.printField("failed", "and %d more", more)
	}
}

// rolloutActionCommand makes one command that acts on a roll-out, such as muster rollout pause.
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
				c.Wrapf(2, "%s", strings.TrimSuffix(fmt.Sprintf("the roll-out of %s is %s: %s", c.args[0], r.State, r.Reason), ": "))
			})
		},
	})
}
