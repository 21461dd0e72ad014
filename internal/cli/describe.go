package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// describeRows is how many events or nodes a description lists.
const describeRows = 15

// fieldColumns is the width of the names of fields in a description.
const fieldColumns = 14

// describeCommand makes the command muster describe.
func describeCommand(s *commandLine) *cobra.Command {
	var word, name string
	return s.buildCommand(command{
		use: "describe KIND NAME", short: "Show everything about one object",
		args: cobra.RangeArgs(1, 2), complete: s.completeObjects(1), noFormat: true,
		check: func(c *commandCall) (err error) {
			word, name, err = c.kindAndName(c.cmd, c.args)
			return err
		},
		run: func(c *commandCall) error {
			if list, _ := findServerStateList(word); list.describe != nil {
				return list.describe(c, name)
			}
			k, err := c.findKind(word)
			if err != nil {
				return err
			}
			return describeResource(c, k, name)
		},
	})
}

// printField writes one field, its name and value, in the output of muster describe
func (c *commandCall) printField(name, format string, args ...any) {
	c.WriteField(fieldColumns, name, format, args...)
}

// printNonEmptyField prints one field in the output of muster describe, unless its value is empty
func (c *commandCall) printNonEmptyField(name, text string) {
	if text != "" {
		c.printField(name, "%s", text)
	}
}

// printItem prints one entry of a list, indented below the list's title, in the output of muster describe.
func (c *commandCall) printItem(name, format string, args ...any) {
	c.WriteField(fieldColumns+2, "  "+name, format, args...)
}

// describeResource prints a resource for muster describe. It prints its fields, effect, related events or nodes,
// latest changes and declaration.
func describeResource(c *commandCall, k kind.Kind, name string) error {
	namespace, name, err := c.findObject(k.KindInfo, name)
	if err != nil {
		return err
	}
	data, _, err := c.api.Resources.Get(c.ctx, k.KindInfo, namespace, name)
	if err != nil {
		return err
	}
	view, err := newResourceView(c, data)
	if err != nil {
		return err
	}
	if node, ok := view.Resource.Spec.(*model.NodeSpec); ok {
		err = describeNode(c, view.Resource, node)
	} else {
		err = describeDeclared(c, k, view)
	}
	if err == nil {
		err = describeRelated(c, k, namespace, name)
	}
	if err == nil {
		err = describeChanges(c, k, namespace, name)
	}
	if err == nil {
		err = printDeclaration(c, k, view.Resource)
	}
	return err
}

// describeDeclared prints how many nodes a declared resource affects, and details specific to its kind.
func describeDeclared(c *commandCall, k kind.Kind, view kind.ResourceView) (err error) {
	r := view.Resource
	if view.State, err = c.api.Resources.State(c.ctx, k.KindInfo, r.Metadata.Namespace, r.Metadata.Name); err != nil {
		return err
	}
	c.Printf("%s\n\n", resourceTitle(r))
	c.printNonEmptyField("namespace", textIf(k.Namespaced, r.Metadata.Namespace))
	c.printNonEmptyField("labels", labelText(r.Metadata.Labels))
	if parts := k.FromSensu(r.Spec); parts != "" {
		c.printField("from Sensu", "%s: works as in Sensu. Muster's own kind is Route: %s", parts, model.SensuKindsPage)
	}
	c.printNonEmptyField("effect", view.State.Note)
	for _, detail := range k.Details(view, r.Spec) {
		c.printField(detail.Name, "%s", detail.Text)
	}
	return nil
}

// resourceTitle returns the kind, namespace and name of a resource, and its display name if one is declared.
func resourceTitle(r *model.Resource) string {
	return resourceRefText(r.Kind, r.Metadata.Namespace, r.Metadata.Name) + textIf(r.Metadata.DisplayName != "", " ("+r.Metadata.DisplayName+")")
}

// describeRelated lists the events or nodes that belong to a resource, worst first.
func describeRelated(c *commandCall, k kind.Kind, namespace, name string) error {
	f, flag := v1.EventFilter{Namespace: namespace, Limit: describeRows}, "--node "+name
	switch k.Related {
	case kind.NodeEvents:
		f.Node = name
	case kind.CheckEvents:
		f.Check, flag = name, "--check "+name
		if namespace == model.SharedNamespaceName {
			f.Namespace = ""
		}
	case kind.GroupMembers:
		l, err := c.api.Nodes.States(c.ctx, v1.NodeFilter{Namespace: namespace, Group: name, Limit: describeRows})
		if err != nil || len(l.Items) == 0 {
			return err
		}
		c.Printf("\nnodes, worst first\n")
		left := l.Total - len(l.Items)
		more := textIf(left > 0, fmt.Sprintf("%d more: muster get nodes --group %s", left, name))
		return nodeList(c, l, "", more).print(c)
	default:
		return nil
	}
	l, err := c.api.Events.List(c.ctx, f)
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	if err != nil || len(l.Items) == 0 {
		return err
	}
	c.Printf("\nevents, worst first\n")
	more := textIf(l.Next != "", "for more: muster get events "+flag)
	return eventList(c, l, &getFlags{}, more).print(c)
}

// describeChanges lists the latest recorded changes of a resource.
func describeChanges(c *commandCall, k kind.Kind, namespace, name string) error {
	changes, err := c.api.Resources.Changes(c.ctx, k.Name, namespace, name, 5, "")
	if err != nil {
		return err
	}
	if len(changes.Items) > 0 {
		c.Printf("\nlast changes\n")
		for _, change := range changes.Items {
			c.Wrapf(4, "  %s %s", c.AgeText(change.At), changeText(change))
		}
	}
	return nil
}

// printDeclaration writes a resource as YAML for apply, without fields of the server.
func printDeclaration(c *commandCall, k kind.Kind, r *model.Resource) error {
	data, err := json.Marshal(model.Resource{APIVersion: r.APIVersion, Kind: r.Kind, Metadata: r.Metadata, Spec: k.Declared(r.Spec)})
	if err != nil {
		return fmt.Errorf("encode %s: %w", r.Metadata.Name, err)
	}
	text, err := document.YAML(data)
	if err != nil {
		return err
	}
	revision := ""
	if r.Status != nil {
		revision = fmt.Sprintf(" (revision %d)", r.Status.Revision)
	}
	c.Printf("\ndeclared%s\n%s\n", revision, screen.PaintedText(screen.Indent(string(text))))
	return nil
}

// handlersWithFaults formats handler names, each followed by the reason if the handler cannot notify of removed
// nodes. After a handler that cannot notify of a removed node follows the reason.
func handlersWithFaults(c *commandCall, namespace string, refs []string) (string, error) {
	notes := make([]string, len(refs))
	for i, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		data, _, err := c.api.Resources.Get(c.ctx, kind.Handler().KindInfo, ns, name)
		switch class := model.ClassOf(err); {
		case class == model.NotFound:
			if _, _, err := c.api.Resources.Get(c.ctx, kind.Pipeline().KindInfo, ns, model.SensuPipeline(name)); err == nil {
				break // a handler set of Sensu
			}
			ref += " (does not exist: the message waits until you apply the handler)"
		case class == model.Forbidden: // in a namespace that the reader may not see
		case err != nil:
			return "", err
		default:
			r, err := c.Kinds.DecodeResource(data)
			if err != nil {
				return "", err
			}
			if service := r.Spec.(*model.HandlerSpec).ProblemService(); service != "" {
				ref += " (" + service + " accepts problems only: the message becomes a dead letter)"
			}
		}
		notes[i] = ref
	}
	return strings.Join(notes, ", "), nil
}

// describeEvent prints an event with its problem and notifications, for muster describe. It prints its fields,
// output, hooks, problem, deliveries and history.
func describeEvent(c *commandCall, name string) error {
	n, err := c.findEvent(name)
	if err != nil {
		return err
	}
	e, err := c.api.Events.Get(c.ctx, n.namespace, n.node, n.check)
	if err != nil {
		return err
	}
	c.Printf("%s is %s\n\n", e.Node+"/"+e.Check, statusCell(e.Status))
	printEventFields(c, &e)
	printDefinition(c, e.Definition)
	printOutput(c, "output", e.Output)
	printHooks(c, &e)
	for _, note := range e.Notes {
		c.printField("note", "%s: evaluation failed, no effect", note)
	}
	if e.Problem != nil {
		c.Printf("\n")
		c.printField("problem", "%s, opened %s", e.Problem.ID, c.TimeAndAge(e.Problem.Opened))
		printProblemTexts(c, &e.Problem.Problem)
		printHolds(c, e.Problem.Ack, e.Problem.Holds)
		if err := printDeliveries(c, e.Problem.ID); err != nil {
			return err
		}
	}
	if e.Problem == nil {
		if err := printUnsentOfLastProblem(c, n); err != nil {
			return err
		}
	}
	entries, err := c.api.Events.History(c.ctx, n.namespace, n.node, n.check, 10)
	if err != nil {
		return err
	}
	if len(entries.Items) > 0 {
		c.Printf("\nhistory, newest first\n")
		for _, entry := range entries.Items {
			c.Wrapf(4, "  %s  %s", c.DateAndTime(entry.At), historyEntryText(entry))
		}
	}
	return nil
}

// printEventFields prints the fields of an event, such as times, severity and counts.
func printEventFields(c *commandCall, e *v1.Event) {
	c.printField("namespace", "%s", e.Namespace)
	if e.Status != model.OK {
		c.printField("severity", "%s", e.Severity)
	}
	c.printNonEmptyField("expired", textIf(e.Expired, "yes: no result arrived within the TTL"))
	c.printField("received", "%s", c.TimeAndAge(e.Received))
	c.printField("executed", "%s", c.TimeAndAge(e.Executed)+textIf(e.Duration > 0, ", took "+e.Duration.String())+textIf(e.RanBy != "", ", by "+e.RanBy))
	c.printField("since", "%s", c.TimeAndAge(e.Changed))
	c.printField("last OK", "%s", c.TimeAndAge(e.LastOK))
	c.printField("occurrences", "%d in a row", e.Occurrences)
	if e.State == "flapping" {
		c.printField("flapping", "yes: %d %% of state change; the problem stays open until the status is stable", e.Change)
	}
	c.printField("history", "%s (oldest first: o ok, w warning, c critical, u unknown)", statusLetters(e.History))
	c.printField("state changes", "%d", e.StateChanges)
	stream := ""
	if e.Stream != 0 { // of an agent; the server's own results have no stream
		stream = fmt.Sprintf("; last sequence number %d of stream %s", e.Number, e.Stream)
	}
	c.printField("results", "%d applied, %d lost%s", e.Results, e.Lost, stream)
}

// printOutput prints the output of a check or of its hook command below a title.
func printOutput(c *commandCall, title, output string) {
	c.Printf("\n%s\n%s\n", title, screen.PaintedText(screen.Indent(output)))
}

// shownValues is how many values of an event a description lists; -o yaml has all.
const shownValues = 20

// printHooks prints the outputs of a check's hooks, and the metric values, that came with its last result.
func printHooks(c *commandCall, e *v1.Event) {
	for _, h := range e.Hooks {
		status := textIf(h.Status != model.OK, ", "+h.Status.String())
		printOutput(c, screen.CleanLine(fmt.Sprintf("hook %s (took %s%s)", h.Name, h.Duration, status)), h.Output)
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
		c.Printf("  %s = %v\n", v.Name+textIf(len(v.Tags) > 0, "{"+labelText(v.Tags)+"}"), v.Value)
	}
}

// printHolds prints the reasons, such as a silence, why notifications about a problem wait now. Its
// acknowledgement, silences and other reasons are printed, each with its end.
func printHolds(c *commandCall, ack *model.Ack, holds []v1.NotificationHold) {
	if ack != nil {
		text := ack.By + ", " + c.TimeAndAge(ack.At) + textIf(ack.Note != "", ": "+ack.Note)
		switch {
		case ack.Until.IsZero():
		case ack.Active(c.Now()):
			text += "; until " + c.TimeAndAge(ack.Until)
		default:
			text += "; ended " + c.TimeAndAge(ack.Until)
		}
		c.printField("acknowledged", "%s", text)
	}
	for i := range holds {
		c.printField(fieldNameOnce(i, "on hold"), "%s", holds[i].Text()+textIf(!holds[i].Until.IsZero(), ", until "+c.TimeAndAge(holds[i].Until)))
	}
}

// fieldNameOnce returns the field name for the first of several values, and "" for all later values. For the
// values in the lines below, it returns "".
func fieldNameOnce(i int, name string) string { return textIf(i == 0, name) }

// printDefinition prints the display name, runbook and other texts that a check or trigger declares for people.
func printDefinition(c *commandCall, d *v1.Definition) {
	for _, text := range definitionTexts(d) {
		c.printNonEmptyField(text[0], text[1])
	}
}

// printProblemTexts prints the labels and the description of a problem.
func printProblemTexts(c *commandCall, p *model.Problem) {
	c.printNonEmptyField("labels", labelText(p.Labels))
	c.printNonEmptyField("description", p.Description)
}

// definitionTexts returns the display name, runbook and other texts of a check or trigger, with their field
// names. The display name and the runbook are such texts.
func definitionTexts(d *v1.Definition) [][2]string {
	if d == nil {
		return nil
	}
	return [][2]string{{"shown as", d.DisplayName}, {"opens if", d.Expression}, {"closes if", d.Recovery}, {"runbook", d.Runbook}}
}

// printDeliveries prints the notifications about a problem.
func printDeliveries(c *commandCall, problem string) error {
	l, err := c.api.Problems.Deliveries(c.ctx, problem)
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		c.printField("notified", "nobody")
	}
	printDeliveryList(c, l.Items)
	return nil
}

// printUnsentOfLastProblem prints the undelivered notifications of an event without an open problem. They are about the
// event's last problem, for example about its recovery.
func printUnsentOfLastProblem(c *commandCall, n eventName) error {
	last, err := c.api.Problems.List(c.ctx, n.namespace, n.node, n.check, false, 1, "", v1.RowFilter{})
	if err != nil || len(last.Items) == 0 {
		return err
	}
	l, err := c.api.Problems.Deliveries(c.ctx, last.Items[0].ID)
	l.Items = slices.DeleteFunc(l.Items, func(d v1.Delivery) bool { return d.State != "pending" && d.State != "dead" })
	if err != nil || len(l.Items) == 0 {
		return err
	}
	c.Printf("\n")
	c.printField("last problem", "%s, closed %s", last.Items[0].ID, c.TimeAndAge(last.Items[0].Closed))
	printDeliveryList(c, l.Items)
	return nil
}

// printDeliveryList prints notifications with handler, state, attempts and last error.
func printDeliveryList(c *commandCall, list []v1.Delivery) {
	for i, d := range list {
		text := fmt.Sprintf("%s (%s): %s", d.Handler, d.Kind, d.State)
		switch d.State {
		case "delivered":
			text += " " + c.TimeAndAge(d.Ended)
		case "pending":
			text += fmt.Sprintf(", %s, next %s", model.CountNoun(d.Attempts, "attempt"), c.TimeAndAge(d.NextAt))
		}
		text += textIf(d.LastError != "", "; last error: "+d.LastError)
		c.printField(fieldNameOnce(i, "notified"), "%s", text)
	}
}

// describeProblem prints a problem for muster describe. It prints its fields, the reasons why notifications wait, its
// timeline and its output.
func describeProblem(c *commandCall, name string) error {
	id, err := c.findProblemID(name)
	if err != nil {
		return err
	}
	l, err := c.api.Problems.Timeline(c.ctx, id)
	if err != nil {
		return err
	}
	p := l.Problem
	state := "open"
	if !p.Closed.IsZero() {
		state = "closed"
	}
	c.Printf("problem %s of %s is %s\n\n", p.ID, p.Node+"/"+p.Source.String(), state)
	c.printField("namespace", "%s", p.Namespace)
	c.printField("worst", "%s, severity %s", p.Status, p.Severity)
	printDefinition(c, l.Definition)
	printProblemTexts(c, &p.Problem)
	c.printField("opened", "%s", c.TimeAndAge(p.Opened))
	printHolds(c, p.Ack, p.Holds)
	if !p.Closed.IsZero() {
		c.printField("closed", "%s, lasted %s", c.TimeAndAge(p.Closed), model.TimeSpan(p.Closed.Sub(p.Opened)))
	}
	c.Printf("\ntimeline\n")
	for _, m := range l.Items {
		c.Wrapf(23, "  %s  %s", c.DateAndTime(m.At), m.Kind+" "+m.Text)
	}
	if p.Closed.IsZero() {
		c.Wrapf(2, "  the next message, or why there is none: muster why %s", p.Node+"/"+p.Source.String()+textIf(p.Namespace != model.DefaultNamespaceName, " -n "+p.Namespace))
	}
	printOutput(c, "output at opening", p.Output)
	return nil
}
