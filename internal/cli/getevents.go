package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// pageRows is how many rows one request asks for at most.
const pageRows = 500

func (g *getFlags) filter(a *app) v1.EventFilter {
	f := v1.EventFilter{
		Namespace: a.ns(), Node: g.node, Check: g.check, Status: g.status, Group: g.group,
		Selector: g.selector, Where: g.where, Problem: g.problem,
	}
	if g.all {
		f.Namespace = ""
	}
	return f
}

// getEvents prints events, worst first, or watches them.
func (a *app) getEvents(ctx context.Context, c *client.Client, names []string, g *getFlags) error {
	f := g.filter(a)
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "one event at a time").WithHint("muster get events --node NODE, or: muster get event NODE/CHECK")
	}
	if len(names) == 1 {
		node, check, err := nodeCheck(names[0])
		if err != nil {
			return err
		}
		f.Node, f.Check = node, check
	}
	if g.at != "" {
		return a.getPastEvents(ctx, c, f, g)
	}
	if g.watch {
		return a.watchEvents(ctx, c, f, g)
	}
	list, err := readEvents(ctx, c, f, g.limit)
	if err != nil {
		return err
	}
	if len(names) == 1 && (len(list.Items) == 0 || g.output.machine()) {
		one, err := c.Events.Get(ctx, a.ns(), f.Node, f.Check) // which says why there is none, and all that there is
		if err != nil {
			return err
		}
		list.Items = []v1.Event{one}
	}
	switch {
	case g.output.machine() && len(names) == 1:
		return a.printValue(*g.output, list.Items[0])
	case g.output.machine():
		return a.printValue(*g.output, list)
	}
	return a.printEvents(list, g)
}

// readEvents reads pages until limit rows are there; 0: all.
func readEvents(ctx context.Context, c *client.Client, f v1.EventFilter, limit int) (v1.EventList, error) {
	var all v1.EventList
	for {
		f.Limit = pageRows
		if limit > 0 {
			f.Limit = min(pageRows, limit-len(all.Items))
		}
		page, err := c.Events.List(ctx, f)
		if err != nil {
			return all, err
		}
		all.Items = append(all.Items, page.Items...)
		if all.Next, all.Total, all.Wrong = page.Next, page.Total, page.Wrong; f.After == "" {
			all.Match, all.Others = page.Match, page.Others
		}
		if page.Next == "" || limit > 0 && len(all.Items) >= limit {
			return all, nil
		}
		f.After = page.Next
	}
}

func (a *app) printEvents(list v1.EventList, g *getFlags) error {
	if len(list.Items) == 0 {
		fmt.Fprintln(a.Stdout, "no events"+a.why(g))
		if g.unfiltered() {
			a.printOthers(list.Others)
		}
		return nil
	}
	if err := a.eventTable(list.Items, g).write(a.narrow(*g.output)); err != nil {
		return err
	}
	if !g.watch && g.unfiltered() && a.inContext {
		defer a.printOthers(list.Others)
	}
	if list.Next == "" {
		return nil
	}
	shown := uint64(len(list.Items))
	switch {
	case g.unfiltered() && list.Total > shown:
		fmt.Fprintf(a.Stdout, "%d more; %d of all %d are not OK. --limit 0 shows all\n", list.Total-shown, list.Wrong, list.Total)
	case list.Match > shown:
		fmt.Fprintf(a.Stdout, "%d more of %d that match: --limit 0 shows all\n", list.Match-shown, list.Match)
	default:
		fmt.Fprintln(a.Stdout, "more than these match: --limit 0 shows all")
	}
	return nil
}

// printOthers says what other namespaces hold than the one that nobody asked for.
func (a *app) printOthers(others []v1.Room) {
	if len(others) == 0 {
		return
	}
	names := make([]string, len(others))
	for i, o := range others {
		names[i] = roomText(o)
	}
	fmt.Fprintf(a.Stdout, "in other namespaces: %s. -A shows all, -n %s one\n", clean(strings.Join(names, ", "), false), clean(others[0].Namespace, false))
}

// roomText is a namespace in some words: demo 1800 events, 12 not OK.
func roomText(o v1.Room) string {
	text := o.Namespace + " " + model.CountNoun(o.Events, "event")
	if o.Wrong > 0 {
		text += fmt.Sprintf(" (%d not OK)", o.Wrong)
	}
	return text
}

func (g *getFlags) unfiltered() bool {
	return g.node == "" && g.check == "" && g.status == "" && g.selector == "" && g.where == "" && g.group == "" && !g.problem
}

func (a *app) why(g *getFlags) string {
	if !g.unfiltered() {
		return " match"
	}
	if g.all {
		return " yet: declare a check (muster explain check)"
	}
	return " in namespace " + a.ns() + " yet: declare a check (muster explain check)"
}

func (a *app) eventTable(events []v1.Event, g *getFlags) *table {
	wide := *g.output == "wide"
	head := []string{"STATUS", "NODE", "CHECK", "FOR", "SEEN"}
	if g.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	if wide {
		head = append(head, "SEVERITY", "TIMES", "RUN", "HISTORY", "PROBLEM")
	}
	held := anyHeld(a, events, func(e *v1.Event) *v1.OpenProblem { return e.Problem })
	if held {
		head = append(head, "HELD")
	}
	t := newTable(append(head, "OUTPUT")...)
	for _, e := range events {
		row := a.eventRow(e, g.all, wide)
		if held {
			row = slices.Insert(row, len(row)-1, any(dash(a.held(e.Problem))))
		}
		t.add(row...)
	}
	return t
}

func (a *app) eventRow(e v1.Event, all, wide bool) []any {
	var row []any
	if all {
		row = append(row, e.Namespace)
	}
	since := e.Changed
	if since.IsZero() {
		since = e.Received
	}
	row = append(row, statusCell(e.Status), e.Node, e.Check, model.Age(a.Now(), since), model.Age(a.Now(), e.Received))
	if wide {
		problem, severity, took := "-", "-", "-"
		if e.Problem != nil {
			problem = e.Problem.ID
		}
		if e.Status != model.OK {
			severity = e.Severity.String()
		}
		if e.Duration > 0 {
			took = e.Duration.String()
		}
		return append(row, severity, strconv.FormatUint(uint64(e.Occurrences), 10), took, history(e.History), problem, firstLine(e.Output))
	}
	return append(row, summary(e.Output))
}

// summary is the first line of an output without its perfdata, which is for programs.
func summary(output string) string {
	text, _, _ := strings.Cut(firstLine(output), "|")
	return strings.TrimSpace(text)
}

// statusCell is a status by its word; colour only helps.
func statusCell(s model.Status) cell {
	switch s {
	case model.OK:
		return cell{"OK", green}
	case model.Warning:
		return cell{"WARNING", yellow}
	case model.Critical:
		return cell{"CRITICAL", red}
	}
	return cell{s.String(), purple}
}

// history is one letter for each status, oldest first: ooowwc.
func history(h []int) string {
	var b strings.Builder
	for _, s := range h {
		if 0 <= s && s < 4 {
			b.WriteByte("owcu"[s])
		}
	}
	return dash(b.String())
}

// nodeCheck reads NODE/CHECK.
func nodeCheck(text string) (node, check string, err error) {
	node, check, ok := strings.Cut(text, "/")
	if !ok || node == "" || check == "" {
		return "", "", model.Errorf(model.Invalid, "%q names no event: that is NODE/CHECK, for example web01/disk", text).
			WithHint("all of a node: muster get events --node %s", cmp.Or(node, "web01"))
	}
	return node, check, nil
}
