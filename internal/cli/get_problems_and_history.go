package cli

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// getProblems lists problems, open problems first. Lists for programs have the server's order.
func getProblems(c *commandCall, names []string, g *getFlags) error {
	if len(names) == 1 {
		id, err := c.findProblemID(names[0])
		if err != nil {
			return err
		}
		p, err := c.api.Problems.Get(c.ctx, id)
		if err != nil {
			return err
		}
		return problemList(c, p, []v1.Problem{p}).print(c)
	}
	namespace, err := c.cutNamespacePrefix(&g.group, &g.node, &g.check)
	if err != nil {
		return err
	}
	if g.watch {
		return watchProblems(c, namespace, g, func() error { return listProblems(c, namespace, g) })
	}
	return listProblems(c, namespace, g)
}

// listProblems prints the problems that the flags select, open problems before closed problems.
func listProblems(c *commandCall, namespace string, g *getFlags) error {
	items, next, err := readProblems(c, namespace, g, g.open)
	if err != nil {
		return err
	}
	if !g.open && !c.Format.IsForPrograms() {
		open, moreOpen, err := readProblems(c, namespace, g, true)
		if err != nil {
			return err
		}
		items = append(open, slices.DeleteFunc(items, func(p v1.Problem) bool { return p.Closed.IsZero() })...)
		if next == "" {
			next = moreOpen
		}
		if g.limit > 0 && len(items) > g.limit {
			items, next = items[:g.limit], "more"
		}
	}
	empty := "no problems"
	if g.open {
		empty = "no open problems"
	}
	empty += textIf(g.selectsAllEvents() && !c.allNamespaces, " in namespace "+c.objectNamespace()+". All namespaces: -A")
	more := textIf(next != "", "more rows: --limit 0 shows all, --open only open problems")
	l := problemList(c, v1.ProblemList{Items: items, Next: next}, items)
	l.empty, l.notes = empty, []string{more}
	return l.print(c)
}

// readProblems reads problems from the server, page by page, up to the limit of the flags. With limit 0, it reads all.
func readProblems(c *commandCall, namespace string, g *getFlags, open bool) ([]v1.Problem, string, error) {
	return client.Pages(g.limit, func(size int, after string) ([]v1.Problem, string, error) {
		page, err := c.api.Problems.List(c.ctx, namespace, g.node, g.check, open, size, after, g.RowFilter)
		return page.Items, page.Next, err
	})
}

// problemList converts problems to the table for muster get problems. It has the column HELD only if messages
// about some problem wait, for example because of a silence.
func problemList(c *commandCall, value any, items []v1.Problem) listOutput[v1.Problem] {
	held := slices.ContainsFunc(items, func(p v1.Problem) bool { return holdText(c, &p.OpenProblem) != "" })
	return listOutput[v1.Problem]{
		value: value, items: items,
		columns: screen.SplitColumns("NAMESPACE|ID|STATE|NODE|SOURCE|OPENED|LASTED|HELD|OUTPUT").HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(held, "HELD"),
		row: func(p v1.Problem) []any {
			end := p.Closed
			if end.IsZero() {
				end = c.Now()
			}
			return []any{
				p.Namespace, p.ID, problemState(c, &p), p.Node, p.Source.String(), c.AgeText(p.Opened), model.TimeSpan(end.Sub(p.Opened)),
				heldCell(c, &p.OpenProblem), outputText(c, p.Output),
			}
		},
	}
}

// problemState returns the table cell with the state of a problem, such as OPEN, ACK or closed. It is OPEN,
// ACK, closed, or the reason why its messages wait, such as silenced.
func problemState(c *commandCall, p *v1.Problem) screen.Cell {
	word := "OPEN"
	switch {
	case !p.Closed.IsZero():
		return screen.Cell{Text: "closed", Colour: screen.Green}
	case p.Ack.Active(c.Now()):
		word = "ACK"
	case len(p.Holds) > 0:
		word = strings.ToUpper(p.Holds[0].Kind)
	}
	return screen.Cell{Text: word + " " + p.Status.String(), Colour: statusCell(p.Status).Colour}
}

// getQueues lists the bounded queues inside the server, or only the queues named in the arguments.
func getQueues(c *commandCall, names []string, g *getFlags) error {
	if g.Selector != "" {
		return model.Errorf(model.Invalid, "-l does not apply to queues, because queues have no labels").WithHint("muster get queues --where 'row.depth > 0'")
	}
	l, err := c.api.Queues(c.ctx, g.RowFilter)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if l.Items, err = findQueuesByName(l.Items, names); err != nil {
			return err
		}
	}
	rows, more := cutRows(g.limit, l.Items)
	return listOutput[v1.Queue]{
		value: l, items: rows, notes: []string{cutRowsText(more)}, columns: screen.SplitColumns("QUEUE|DEPTH|CAPACITY|UNIT|WHEN FULL|PASSED|OVERFLOWED"),
		row: func(q v1.Queue) []any {
			depth := screen.Cell{Text: fmt.Sprint(q.Depth)}
			if q.Capacity > 0 && q.Depth*10 >= q.Capacity*8 {
				depth = faultCountCell(uint64(q.Depth))
			}
			return []any{q.Name, depth, q.Capacity, q.Unit, q.Policy, q.Passed, q.Overflow}
		},
	}.print(c)
}

// findQueuesByName returns the queues of the given names. An unknown name is an error.
func findQueuesByName(all []v1.Queue, names []string) (found []v1.Queue, err error) {
	for _, name := range names {
		i := slices.IndexFunc(all, func(q v1.Queue) bool { return q.Name == name })
		if i < 0 {
			e := model.Errorf(model.NotFound, "unknown queue %q", name)
			if near := model.Nearest(name, convertEach(all, func(q v1.Queue) string { return q.Name })); near != "" {
				return nil, e.WithHint("did you mean %s? List queues: muster get queues", near)
			}
			return nil, e.WithHint("list queues: muster get queues")
		}
		found = append(found, all[i])
	}
	return found, nil
}

// getHistory lists history entries, newest first, of all events or of one NODE or NODE/CHECK
func getHistory(c *commandCall, names []string, g *getFlags) error {
	if g.problem {
		return getTimeline(c, names)
	}
	namespace, err := c.cutNamespacePrefix(&g.group, &g.node, &g.check)
	if err != nil {
		return err
	}
	q := v1.HistoryQuery{Namespace: namespace, Node: g.node, Check: g.check, RowFilter: g.RowFilter}
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "expected at most one node or event").WithHint("muster get history %s", names[0])
	}
	if len(names) == 1 {
		n, err := c.findNodeOrEventOfList(names[0])
		if err != nil {
			return err
		}
		q.Namespace, q.Node, q.Check = n.namespace, n.node, n.check
	}
	if q.Since, q.Until, err = g.period.parseTimes(c.commandLine); err != nil {
		return err
	}
	items, next, err := client.Pages(g.limit, func(size int, after string) ([]v1.Entry, string, error) {
		q.Limit, q.After = size, after
		page, err := c.api.Events.Entries(c.ctx, q)
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	more := textIf(next != "", "older entries exist: --limit 0 shows all, --until TIME the entries before a time")
	return listOutput[v1.Entry]{
		value: v1.EntryList{Items: items, Next: next}, items: items, notes: []string{more},
		empty:   "no history: the server keeps changes of status for --history-retention",
		columns: screen.SplitColumns("NAMESPACE|TIME|NODE|CHECK|CHANGE").HideUnless(c.allNamespaces, "NAMESPACE"),
		row: func(e v1.Entry) []any {
			entry := screen.Cell{Text: historyEntryText(e)}
			if e.Kind == "status" {
				entry.Colour = statusCell(e.Status).Colour
			}
			return []any{e.Namespace, c.DateAndTime(e.At), e.Node, e.Source.String(), entry}
		},
	}.print(c)
}

// getTimeline lists the timeline of a problem, oldest first.
func getTimeline(c *commandCall, ids []string) error {
	if len(ids) != 1 {
		return model.Errorf(model.Invalid, "--problem needs the id of one problem").WithHint("list the ids: muster get problems; then: muster get history --problem ID")
	}
	id, err := c.findProblemID(ids[0])
	if err != nil {
		return err
	}
	l, err := c.api.Problems.Timeline(c.ctx, id)
	if err != nil {
		return err
	}
	return listOutput[v1.Moment]{
		value: l, items: l.Items, columns: screen.SplitColumns("TIME|STEP|TEXT"),
		row: func(m v1.Moment) []any { return []any{c.DateAndTime(m.At), m.Kind, m.Text} },
	}.print(c)
}
