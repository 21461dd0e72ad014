package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) describeCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "describe KIND NAME",
		Short:             "All there is to know of one thing",
		Long:              "Says what a thing is, where it lands and how it is; what was declared comes last.\nOf an event also what happened to it, and who was told.",
		Example:           "  muster describe event web01/disk\n  muster describe node web01\n  muster describe check disk",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeObjects(1),
		RunE: func(c *cobra.Command, args []string) error {
			word, names, err := a.kindAndNames(c, args)
			if err != nil {
				return err
			}
			if len(names) != 1 {
				return a.noName(c, word)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			switch strings.ToLower(word) {
			case "event", "events", "ev":
				return a.describeEvent(c.Context(), client, names[0])
			case "problem", "problems", "pr":
				return a.describeProblem(c.Context(), client, names[0])
			}
			k, err := a.kindOf(word)
			if err != nil {
				return err
			}
			return a.describeResource(c.Context(), client, k, names[0])
		},
	}
}

// field prints a name and its value.
func (a *app) field(name, format string, args ...any) {
	fmt.Fprintf(a.Stdout, "%-14s %s\n", name, clean(fmt.Sprintf(format, args...), false))
}

func (a *app) when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	text := t.In(a.Zone).Format("2006-01-02 15:04:05 MST")
	if t.After(a.Now()) {
		return text + " (in " + model.TimeSpan(t.Sub(a.Now())) + ")"
	}
	return text + " (" + model.Age(a.Now(), t) + " ago)"
}

func (a *app) describeEvent(ctx context.Context, c *client.Client, name string) error {
	node, check, err := nodeCheck(name)
	if err != nil {
		return err
	}
	e, err := c.Events.Get(ctx, a.ns(), node, check)
	if err != nil {
		return err
	}
	status := statusCell(e.Status)
	fmt.Fprintf(a.Stdout, "%s is %s\n\n", clean(e.Node+"/"+e.Check, false), a.paint(status.colour, status.text))
	a.field("namespace", "%s", e.Namespace)
	if e.Status != model.OK {
		a.field("severity", "%s", e.Severity)
	}
	if e.Expired {
		a.field("expired", "yes: this status is the deadline's, no result came in time")
	}
	a.field("received", "%s", a.when(e.Received))
	took := ""
	if e.Duration > 0 {
		took = ", took " + e.Duration.String()
	}
	by := ""
	if e.RanBy != "" {
		by = ", by " + e.RanBy
	}
	a.field("executed", "%s%s%s", a.when(e.Executed), took, by)
	a.field("since", "%s", a.when(e.Changed))
	a.field("last OK", "%s", a.when(e.LastOK))
	a.field("occurrences", "%d in a row", e.Occurrences)
	if e.State == "flapping" {
		a.field("flapping", "yes: %d %% of change; its problem stays open until it is steady", e.Change)
	}
	a.field("history", "%s (oldest first: o ok, w warning, c critical, u unknown)", history(e.History))
	a.field("state changes", "%d", e.StateChanges)
	last := ""
	if e.Stream != 0 { // an agent's, and not the server's own
		last = fmt.Sprintf("; last is number %d of stream %s", e.Number, e.Stream)
	}
	a.field("results", "%d applied, %d lost%s", e.Results, e.Lost, last)
	fmt.Fprintf(a.Stdout, "\noutput\n%s\n", indent(clean(strings.TrimRight(e.Output, "\n"), true)))
	a.describeBeside(&e)
	for _, note := range e.Notes {
		a.field("note", "%s: it could not be evaluated, and decided nothing", note)
	}
	if e.Problem != nil {
		fmt.Fprintln(a.Stdout)
		a.field("problem", "%s, opened %s", e.Problem.ID, a.when(e.Problem.Opened))
		a.acknowledged(e.Problem.Ack)
		a.describeHeld(e.Problem.Holds)
		if err := a.printDeliveries(ctx, c, e.Problem.ID); err != nil {
			return err
		}
	}
	entries, err := c.Events.History(ctx, a.ns(), node, check, 10)
	if err != nil {
		return err
	}
	if len(entries.Items) > 0 {
		fmt.Fprintln(a.Stdout, "\nwhat happened, newest first")
		for _, entry := range entries.Items {
			fmt.Fprintf(a.Stdout, "  %s  %s\n", entry.At.In(a.Zone).Format("2006-01-02 15:04:05"), clean(entryText(entry), false))
		}
	}
	return nil
}

func entryText(e v1.Entry) string {
	switch e.Kind {
	case "lost":
		if e.Count == 0 {
			return "the agent tells: " + firstLine(e.Output)
		}
		return fmt.Sprintf("the agent gave up %s: %s", model.CountNoun(e.Count, "result"), firstLine(e.Output))
	case "late":
		return fmt.Sprintf("late result of %s: %s %s", e.Executed.UTC().Format(time.RFC3339), e.Status, firstLine(e.Output))
	}
	if words := entryWords[e.Kind]; words != "" {
		return words + ": " + firstLine(e.Output)
	}
	if e.Previous == nil {
		return fmt.Sprintf("%s, the first result: %s", e.Status, firstLine(e.Output))
	}
	return fmt.Sprintf("%s, was %s: %s", e.Status, *e.Previous, firstLine(e.Output))
}

var entryWords = map[string]string{
	"acknowledged": "acknowledged by", "unacknowledged": "acknowledgement taken back by",
	"flapping": "its status keeps changing", "steady": "its status is steady again", "text": "it says now", "forgotten": "the node was forgotten",
}

// acknowledged shows who looks after a problem.
func (a *app) acknowledged(ack *model.Ack) {
	if ack == nil {
		return
	}
	text := ack.By + ", " + a.when(ack.At)
	if ack.Note != "" {
		text += ": " + ack.Note
	}
	if !ack.Until.IsZero() {
		end := "until"
		if !ack.Active(a.Now()) {
			end = "ended"
		}
		text += "; " + end + " " + a.when(ack.Until)
	}
	a.field("acknowledged", "%s", text)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

func (a *app) printDeliveries(ctx context.Context, c *client.Client, problem string) error {
	list, err := c.Problems.Deliveries(ctx, problem)
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		a.field("told", "nobody")
	}
	for i, d := range list.Items {
		name := ""
		if i == 0 {
			name = "told"
		}
		text := fmt.Sprintf("%s about %s: %s", d.Handler, d.Kind, d.State)
		switch d.State {
		case "delivered":
			text += " " + a.when(d.Ended)
		case "pending":
			text += fmt.Sprintf(", %s, again %s", model.CountNoun(d.Attempts, "attempt"), a.when(d.NextAt))
		}
		if d.LastError != "" {
			text += "; last error: " + d.LastError
		}
		a.field(name, "%s", text)
	}
	return nil
}

func (a *app) describeProblem(ctx context.Context, c *client.Client, id string) error {
	p, err := c.Problems.Get(ctx, id)
	if err != nil {
		return err
	}
	state := "open"
	if !p.Closed.IsZero() {
		state = "closed"
	}
	fmt.Fprintf(a.Stdout, "problem %s of %s is %s\n\n", clean(p.ID, false), clean(p.Node+"/"+p.Source.String(), false), state)
	a.field("namespace", "%s", p.Namespace)
	a.field("worst", "%s, severity %s", p.Status, p.Severity)
	a.field("opened", "%s", a.when(p.Opened))
	a.acknowledged(p.Ack)
	a.describeHeld(p.Holds)
	if !p.Closed.IsZero() {
		a.field("closed", "%s, lasted %s", a.when(p.Closed), model.TimeSpan(p.Closed.Sub(p.Opened)))
	}
	if err := a.printDeliveries(ctx, c, id); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "\noutput at opening\n%s\n", indent(clean(strings.TrimRight(p.Output, "\n"), true)))
	return nil
}
