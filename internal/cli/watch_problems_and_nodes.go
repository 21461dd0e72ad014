package cli

import (
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// A watch prints a list for people, then one line for each change until Ctrl-C. Programs get the changes alone, one JSON
// object per line.

// watchProblems prints each problem that opens, closes, gets worse or is acknowledged.
func watchProblems(c *commandCall, namespace string, g *getFlags, printList func() error) error {
	if g.Where != "" {
		return model.Errorf(model.Invalid, "--where does not apply to a watch of problems").WithHint("muster get events -w --problem --where 'event.severity >= 4'")
	}
	f := v1.EventFilter{Namespace: namespace, Node: g.node, Check: g.check, Selector: g.Selector}
	open := map[eventKey]v1.Problem{}
	begin := func() error {
		present := f
		present.Problem = true
		list, err := readEvents(c, present, 0)
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			open[eventKey{uint32(e.NodeID), uint32(e.CheckID)}] = problemOfEvent(&e)
		}
		return printInitialList(c, printList)
	}
	return c.api.Events.Watch(c.ctx, f, begin, func(e v1.Event) error {
		key := eventKey{uint32(e.NodeID), uint32(e.CheckID)}
		before, known := open[key]
		now := problemOfEvent(&e)
		switch {
		case e.Problem == nil && !known, known && before.ID == now.ID && before.Status == now.Status && (before.Ack == nil) == (now.Ack == nil):
			return nil
		case e.Problem == nil:
			delete(open, key)
			now = before
			now.Closed = e.Changed
		default:
			open[key] = now
		}
		return printChangedObject(c, now, e.Changed, problemState(c, &now), nameWithNamespace(now.Namespace, now.Node)+"/"+now.Source.String(), now.ID+"  "+outputText(c, e.Output))
	})
}

// problemOfEvent returns the open problem of an event, or an empty one if no problem is open.
func problemOfEvent(e *v1.Event) v1.Problem {
	if e.Problem == nil {
		return v1.Problem{}
	}
	return v1.Problem{OpenProblem: *e.Problem, Namespace: e.Namespace, Node: e.Node, Check: e.Check}
}

// watchNodes prints a line for each node whose status changes, until the user stops the command.
func watchNodes(c *commandCall, filter v1.NodeFilter, printList func() error) error {
	statuses := map[string]string{}
	all := filter
	all.Limit = maxRows
	begin := func() error {
		l, err := c.api.Nodes.States(c.ctx, all)
		if err != nil {
			return err
		}
		for _, n := range l.Items {
			statuses[n.Namespace+"/"+n.Name] = nodeStatus(n).Text
		}
		return printInitialList(c, printList)
	}
	events := v1.EventFilter{Namespace: filter.Namespace, Selector: filter.Selector, Group: filter.Group}
	return c.api.Events.Watch(c.ctx, events, begin, func(e v1.Event) error {
		one := filter
		one.Namespace, one.Name, one.Limit = e.Namespace, e.Node, 1
		key := e.Namespace + "/" + e.Node
		if _, known := statuses[key]; known && e.Occurrences > 1 {
			return nil // the status of the event is the same, so the status of the node is, too
		}
		l, err := c.api.Nodes.States(c.ctx, one)
		if model.ClassOf(err) == model.NotFound || err == nil && len(l.Items) == 0 {
			return nil // deleted, or --where leaves the node out
		} else if err != nil {
			return err
		}
		n := l.Items[0]
		status := nodeStatus(n)
		if statuses[key] == status.Text {
			return nil
		}
		statuses[key] = status.Text
		return printChangedObject(c, n, e.Changed, status, nameWithNamespace(n.Namespace, n.Name), e.Check+": "+outputText(c, e.Output))
	})
}

// printInitialList prints the whole list before a watch prints its changes. Output for programs has only the changes.
func printInitialList(c *commandCall, printList func() error) error {
	if c.Format.IsForPrograms() {
		return nil
	}
	if err := printList(); err != nil {
		return err
	}
	c.Printf("%s\n", screen.Cell{Text: "changes follow; Ctrl-C ends the watch", Colour: screen.Faint})
	return nil
}

// printChangedObject prints one object after a change, as a line for people or a document for programs.
// Programs get a document, and people get one line.
func printChangedObject(c *commandCall, object any, at time.Time, state screen.Cell, name, text string) error {
	if c.Format.IsForPrograms() {
		return c.WriteDocument(object)
	}
	c.Printf("%s  %s%s  %s  %s\n", at.In(c.Zone).Format(time.TimeOnly), state, screen.PadToColumn(state.Text, len("CRITICAL")), name, text)
	return nil
}
