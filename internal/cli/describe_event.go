package cli

import (
	"fmt"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// describeEvent shows an event, its output, problem and history.
func describeEvent(c *call, name string) error {
	node, check, err := nodeCheck(name)
	if err != nil {
		return err
	}
	e, err := c.api.Events.Get(c.ctx, c.ns(), node, check)
	if err != nil {
		return err
	}
	c.Printf("%s is %s\n\n", e.Node+"/"+e.Check, statusCell(e.Status))
	printEventFields(c, &e)
	printOutput(c, "output", e.Output)
	printHooks(c, &e)
	for _, note := range e.Notes {
		c.field("note", "%s: could not be evaluated, and decided nothing", note)
	}
	if e.Problem != nil {
		c.Printf("\n")
		c.field("problem", "%s, opened %s", e.Problem.ID, c.When(e.Problem.Opened))
		printHolds(c, e.Problem.Ack, e.Problem.Holds)
		if err := printDeliveries(c, e.Problem.ID); err != nil {
			return err
		}
	}
	entries, err := c.api.Events.History(c.ctx, c.ns(), node, check, 10)
	if err != nil {
		return err
	}
	if len(entries.Items) > 0 {
		c.Printf("\nhistory, newest first\n")
		for _, entry := range entries.Items {
			c.Printf("  %s  %s\n", c.Date(entry.At), entryText(entry))
		}
	}
	return nil
}

func printEventFields(c *call, e *v1.Event) {
	c.field("namespace", "%s", e.Namespace)
	if e.Status != model.OK {
		c.field("severity", "%s", e.Severity)
	}
	if e.Expired {
		c.field("expired", "yes: no result came within the TTL")
	}
	c.field("received", "%s", c.When(e.Received))
	executed := c.When(e.Executed)
	if e.Duration > 0 {
		executed += ", took " + e.Duration.String()
	}
	if e.RanBy != "" {
		executed += ", by " + e.RanBy
	}
	c.field("executed", "%s", executed)
	c.field("since", "%s", c.When(e.Changed))
	c.field("last OK", "%s", c.When(e.LastOK))
	c.field("occurrences", "%d in a row", e.Occurrences)
	if e.State == "flapping" {
		c.field("flapping", "yes: %d %% of change; its problem stays open until the status is steady", e.Change)
	}
	c.field("history", "%s (oldest first: o ok, w warning, c critical, u unknown)", historyLetters(e.History))
	c.field("state changes", "%d", e.StateChanges)
	stream := ""
	if e.Stream != 0 { // of an agent; the server's own results have no stream
		stream = fmt.Sprintf("; the last is number %d of stream %s", e.Number, e.Stream)
	}
	c.field("results", "%d applied, %d lost%s", e.Results, e.Lost, stream)
}

// printOutput writes text of a plug-in below a title.
func printOutput(c *call, title, output string) {
	c.Printf("\n%s\n%s\n", title, screen.Painted(screen.Indent(output)))
}

// shownValues is how many values of an event a description lists; -o yaml has all.
const shownValues = 20

// printHooks writes the hooks and the values that came with the last result.
func printHooks(c *call, e *v1.Event) {
	for _, h := range e.Hooks {
		status := ""
		if h.Status != model.OK {
			status = ", " + h.Status.String()
		}
		printOutput(c, screen.Clean(fmt.Sprintf("hook %s (took %s%s)", h.Name, h.Duration, status)), h.Output)
	}
	if len(e.Values) == 0 {
		return
	}
	c.Printf("\nvalues\n")
	for i, v := range e.Values {
		if i == shownValues {
			c.Printf("  and %d more: muster get event %s/%s -o yaml\n", len(e.Values)-i, e.Node, e.Check)
			break
		}
		name := v.Name
		if len(v.Tags) > 0 {
			name += "{" + labelText(v.Tags) + "}"
		}
		c.Printf("  %s = %v\n", name, v.Value)
	}
}

// printHolds writes the acknowledgement of a problem and everything else that holds notifications,
// each with its end.
func printHolds(c *call, ack *model.Ack, holds []v1.NotificationHold) {
	if ack != nil {
		text := ack.By + ", " + c.When(ack.At)
		if ack.Note != "" {
			text += ": " + ack.Note
		}
		switch {
		case ack.Until.IsZero():
		case ack.Active(c.Now()):
			text += "; until " + c.When(ack.Until)
		default:
			text += "; ended " + c.When(ack.Until)
		}
		c.field("acknowledged", "%s", text)
	}
	for i := range holds {
		text := holds[i].Text()
		if !holds[i].Until.IsZero() {
			text += ", until " + c.When(holds[i].Until)
		}
		c.field(first(i, "held"), "%s", text)
	}
}

// first returns the name of a field for its first value, and none for those below it.
func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// printDeliveries writes the notifications of a problem.
func printDeliveries(c *call, problem string) error {
	l, err := c.api.Problems.Deliveries(c.ctx, problem)
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		c.field("notified", "nobody")
	}
	for i, d := range l.Items {
		text := fmt.Sprintf("%s of %s: %s", d.Handler, d.Kind, d.State)
		switch d.State {
		case "delivered":
			text += " " + c.When(d.Ended)
		case "pending":
			text += fmt.Sprintf(", %s, next %s", model.CountNoun(d.Attempts, "attempt"), c.When(d.NextAt))
		}
		if d.LastError != "" {
			text += "; last error: " + d.LastError
		}
		c.field(first(i, "notified"), "%s", text)
	}
	return nil
}

// describeProblem shows a problem, its holds and notifications, and the output that opened it.
func describeProblem(c *call, id string) error {
	p, err := c.api.Problems.Get(c.ctx, id)
	if err != nil {
		return err
	}
	state := "open"
	if !p.Closed.IsZero() {
		state = "closed"
	}
	c.Printf("problem %s of %s is %s\n\n", p.ID, p.Node+"/"+p.Source.String(), state)
	c.field("namespace", "%s", p.Namespace)
	c.field("worst", "%s, severity %s", p.Status, p.Severity)
	c.field("opened", "%s", c.When(p.Opened))
	printHolds(c, p.Ack, p.Holds)
	if !p.Closed.IsZero() {
		c.field("closed", "%s, lasted %s", c.When(p.Closed), model.TimeSpan(p.Closed.Sub(p.Opened)))
	}
	if err := printDeliveries(c, id); err != nil {
		return err
	}
	printOutput(c, "output at opening", p.Output)
	return nil
}
