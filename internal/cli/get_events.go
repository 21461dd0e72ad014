package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// getEvents lists events, worst first, or watches the changes of events.
func getEvents(c *commandCall, names []string, g *getFlags) error {
	namespace, err := c.cutNamespacePrefix(&g.group, &g.node, &g.check)
	if err != nil {
		return err
	}
	f := v1.EventFilter{
		Namespace: namespace, Node: g.node, Check: g.check, Status: g.status, Group: g.group,
		Selector: g.Selector, Where: g.Where, Problem: g.problem,
	}
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "expected at most one event name").WithHint("muster get events --node NODE, or: muster get event NODE/CHECK")
	}
	if len(names) == 1 {
		n, err := c.findEvent(names[0])
		if err != nil {
			return err
		}
		f.Namespace, f.Node, f.Check = n.namespace, n.node, n.check
	}
	if g.at != "" {
		return getEventsAt(c, f, g)
	}
	if g.watch {
		return watchEvents(c, f, g)
	}
	list, err := readEvents(c, f, g.limit)
	if err != nil {
		return err
	}
	if len(names) == 1 && (len(list.Items) == 0 || c.Format.IsForPrograms()) {
		one, err := c.api.Events.Get(c.ctx, f.Namespace, f.Node, f.Check) // has every field; its error names the reason
		if err != nil {
			return err
		}
		if list.Items = []v1.Event{one}; c.Format.IsForPrograms() {
			return c.WriteValue(one)
		}
	}
	if len(names) == 1 {
		list.OtherNamespaces = nil
	}
	return printEvents(c, list, g)
}

// readEvents reads events from the server, page by page, up to the limit. With limit 0, it reads all.
func readEvents(c *commandCall, f v1.EventFilter, limit int) (list v1.EventList, err error) {
	list.Items, list.Next, err = client.Pages(limit, func(size int, after string) ([]v1.Event, string, error) {
		f.Limit, f.After = size, after
		page, err := c.api.Events.List(c.ctx, f)
		if list.Total, list.Wrong = page.Total, page.Wrong; after == "" {
			list.Match, list.OtherNamespaces = page.Match, page.OtherNamespaces
		}
		return page.Items, page.Next, err
	})
	return list, err
}

// printEvents prints the table of events.
func printEvents(c *commandCall, list v1.EventList, g *getFlags) error {
	others := textIf(g.selectsAllEvents() && (c.namespaceImplied && !g.watch || len(list.Items) == 0), otherNamespacesText(list.OtherNamespaces))
	return eventList(c, list, g, eventsLeftOutText(list, g), others).print(c)
}

// eventList converts events to the table for muster get events. It has the column HELD only if messages about
// some event wait, for example because of a silence.
func eventList(c *commandCall, l v1.EventList, g *getFlags, notes ...string) listOutput[v1.Event] {
	wide := c.Format == screen.Wide
	empty := "no events match"
	switch {
	case !g.selectsAllEvents():
	case c.allNamespaces:
		empty = "no events yet. Declare a check: muster explain check"
	default:
		empty = "no events in namespace " + c.objectNamespace() + " yet. Declare a check: muster explain check"
	}
	held := slices.ContainsFunc(l.Items, func(e v1.Event) bool { return holdText(c, e.Problem) != "" })
	return listOutput[v1.Event]{
		value: l, items: l.Items, empty: empty, notes: notes,
		columns: screen.SplitColumns("NAMESPACE|STATUS|NODE|CHECK|FOR|SEEN|SEVERITY|TIMES|RUN|HISTORY|PROBLEM|HELD|OUTPUT").
			HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(wide, "SEVERITY", "TIMES", "RUN", "HISTORY", "PROBLEM").HideUnless(held, "HELD"),
		row: func(e v1.Event) []any {
			since, problem := e.Changed, ""
			if since.IsZero() {
				since = e.Received
			}
			if e.Problem != nil {
				problem = e.Problem.ID
			}
			return []any{
				e.Namespace, statusCell(e.Status), e.Node, e.Check, model.Age(c.Now(), since), model.Age(c.Now(), e.Received),
				screen.ValueIf(e.Status != model.OK, e.Severity), e.Occurrences, screen.ValueIf(e.Duration != 0, e.Duration),
				statusLetters(e.History), problem, heldCell(c, e.Problem), outputText(c, e.Output),
			}
		},
	}
}

// eventsLeftOutText returns the line with the number of events that --limit cut off, below a table
func eventsLeftOutText(list v1.EventList, g *getFlags) string {
	shown := uint64(len(list.Items))
	switch {
	case list.Next == "":
		return ""
	case g.selectsAllEvents() && list.Total > shown:
		return fmt.Sprintf("%d more; %d of all %d are not OK. --limit 0 shows all", list.Total-shown, list.Wrong, list.Total)
	case list.Match > shown:
		return fmt.Sprintf("%d more of %d matching events: --limit 0 shows all", list.Match-shown, list.Match)
	}
	return "more events match: --limit 0 shows all"
}

// otherNamespacesText formats a line about events in other namespaces, which the printed list does not contain.
// It is empty if the user chose a namespace.
func otherNamespacesText(others []v1.NamespaceEvents) string {
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("in other namespaces: %s. All: -A. One: -n %s", strings.Join(convertEach(others, namespaceText), ", "), others[0].Namespace)
}

// namespaceText formats a namespace with the number of its events, such as "demo 1800 events (12 not OK)"
func namespaceText(n v1.NamespaceEvents) string {
	return n.Namespace + " " + model.CountNoun(n.Events, "event") + textIf(n.Wrong > 0, fmt.Sprintf(" (%d not OK)", n.Wrong))
}

// getEventsAt lists events with the status that each had at a past time
func getEventsAt(c *commandCall, f v1.EventFilter, g *getFlags) error {
	if g.watch || g.problem {
		return model.Errorf(model.Invalid, "--at shows a past state: it cannot be combined with --watch or --problem").WithHint("closed problems are listed, too: muster get problems")
	}
	at, err := parsePastTime(c.commandLine, "at", g.at)
	if err != nil {
		return err
	}
	statuses, err := parseStatuses(f.Status)
	if err != nil {
		return err
	}
	f.Status, f.Limit = "", 100 // the server does not filter the past by status
	var past v1.PastEventList
	past.Items, past.Next, err = client.Pages(g.limit, func(_ int, after string) (found []v1.PastEvent, _ string, _ error) {
		f.After = after
		page, err := c.api.Events.ListAt(c.ctx, f, at)
		for _, e := range page.Items {
			if len(statuses) == 0 || statuses[e.Status] {
				found = append(found, e)
			}
		}
		past.At = page.At
		return found, page.Next, err
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(past.Items, func(a, b v1.PastEvent) int { return statusRank(b.Status) - statusRank(a.Status) })
	if g.limit > 0 && len(past.Items) > g.limit {
		past.Items, past.Next = past.Items[:g.limit], "more"
	}
	more := textIf(past.Next != "", "more rows: --limit 0 shows all")
	return listOutput[v1.PastEvent]{
		value: past, items: past.Items, empty: "history has no events at this time", notes: []string{more},
		columns: screen.SplitColumns("NAMESPACE|STATUS|NODE|CHECK|SINCE|OUTPUT").HideUnless(c.allNamespaces, "NAMESPACE"),
		row: func(e v1.PastEvent) []any {
			return []any{
				e.Namespace, statusCell(e.Status), nodeNameOrDeleted(e.Node, e.DeletedAt), e.Check, screen.ValueIf(!e.Changed.IsZero(), c.DateAndTime(e.Changed)), outputSummary(e.Output),
			}
		},
	}.print(c)
}

// nodeNameOrDeleted formats a node's name, with a mark if the node was deleted since.
func nodeNameOrDeleted(name string, gone time.Time) string {
	return name + textIf(!gone.IsZero(), " (gone)")
}

// statusRank returns a number by which statuses sort from urgent to harmless, such as CRITICAL before OK.
// CRITICAL comes first, then UNKNOWN, WARNING and OK.
func statusRank(s model.Status) int {
	return [...]int{model.OK: 0, model.Warning: 1, model.Critical: 3, model.Unknown: 2}[s&3]
}

// parseStatuses reads the statuses of the flag --status.
func parseStatuses(text string) (map[model.Status]bool, error) {
	out := map[model.Status]bool{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		status, ok := model.ParseStatus(word)
		if !ok {
			return nil, model.Errorf(model.Invalid, "unknown status %q", word).WithHint("ok, warning, critical or unknown; or 0 to 3")
		}
		out[status] = true
	}
	return out, nil
}

// eventWatch prints the list of events for get events -w, and then one line for each change. People see changes
// of status and of problems, with -o wide also of output; programs get these changes alone.
type eventWatch struct {
	*commandCall
	flags     *getFlags
	last      map[eventKey]eventState
	nameWidth int    // columns of the widest name so far
	day       string // of the last line
}

// eventKey identifies an event by the ids of its node and check.
type eventKey struct{ node, check uint32 }

// eventState holds the last printed status and problem of an event, so that a watch prints only changes
type eventState struct {
	status  model.Status
	problem string // id of the open one
}

// watchEvents prints the events, and then each change from the server (get events -w).
func watchEvents(c *commandCall, f v1.EventFilter, g *getFlags) error {
	w := &eventWatch{commandCall: c, flags: g, last: map[eventKey]eventState{}, day: c.Now().In(c.Zone).Format(time.DateOnly)}
	list := func() error {
		events, err := readEvents(c, f, g.limit)
		if err != nil {
			return err
		}
		return w.printList(events)
	}
	return c.api.Events.Watch(c.ctx, f, list, w.printChange)
}

// printList prints the events at the start of a watch, and stores their states.
func (w *eventWatch) printList(list v1.EventList) error {
	for _, e := range list.Items {
		w.storeEventState(e)
		w.widenNameColumn(w.eventName(e))
	}
	if w.Format.IsForPrograms() {
		return nil
	}
	if err := printEvents(w.commandCall, list, w.flags); err != nil {
		return err
	}
	changes := "changes of status"
	if w.Format == screen.Wide {
		changes = "changes"
	}
	w.Printf("%s\n", screen.Cell{Text: changes + " follow; Ctrl-C ends the watch", Colour: screen.Faint})
	return nil
}

// storeEventState stores the present state of an event, and returns its previous state. If no previous state is known,
// known is false.
func (w *eventWatch) storeEventState(e v1.Event) (before eventState, known bool) {
	key := eventKey{uint32(e.NodeID), uint32(e.CheckID)}
	now := eventState{status: e.Status}
	if e.Problem != nil {
		now.problem = e.Problem.ID
	}
	before, known = w.last[key]
	w.last[key] = now
	return before, known
}

// eventName returns the name of an event as NODE/CHECK. In a watch of all namespaces, its namespace comes first.
func (w *eventWatch) eventName(e v1.Event) string {
	name := e.Node + "/" + e.Check
	if w.allNamespaces {
		name = e.Namespace + "/" + name
	}
	return screen.CleanLine(name)
}

// widenNameColumn widens the column of event names so that a name fits. A name longer than half of the terminal's
// width does not count.
func (w *eventWatch) widenNameColumn(name string) {
	if n := screen.TextWidth(name); w.Width == 0 || n <= w.Width/2 {
		w.nameWidth = max(w.nameWidth, n)
	}
}

// printChange writes time, status, name and output of an event that changed.
func (w *eventWatch) printChange(e v1.Event) error {
	before, known := w.storeEventState(e)
	problem := ""
	switch {
	case e.Problem != nil && before.problem != e.Problem.ID && (known || !e.Problem.Opened.Before(e.Received)):
		problem = "problem opened: "
	case e.Problem == nil && before.problem != "":
		problem = "problem closed: "
	}
	changed := e.Status != before.status
	if !known {
		changed = e.Occurrences <= 1
	}
	if !changed && problem == "" && w.Format != screen.Wide {
		return nil
	}
	if w.Format.IsForPrograms() {
		return w.WriteDocument(e)
	}
	at := e.Received
	if e.Changed.After(at) { // a deadline changed the status after the last result
		at = e.Changed
	}
	at = at.In(w.Zone)
	if day := at.Format(time.DateOnly); day > w.day {
		w.day = day
		w.Printf("%s\n", day)
	}
	name, status := w.eventName(e), statusCell(e.Status)
	w.widenNameColumn(name)
	output := problem + outputText(w.commandCall, e.Output)
	if w.Format != screen.Wide && w.Width > 0 {
		before := len("15:04:05  CRITICAL  ") + max(screen.TextWidth(name), w.nameWidth) + 2
		output = screen.CutToWidth(output, max(w.Width-before, 10))
	}
	line := w.Sprintf("%s  %s%s  %s%s  %s", at.Format(time.TimeOnly), status, screen.PadToColumn(status.Text, len("CRITICAL")), name, screen.PadToColumn(name, w.nameWidth), output)
	w.Printf("%s\n", screen.PaintedText(strings.TrimRight(string(line), " ")))
	return nil
}
