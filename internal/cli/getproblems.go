package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) getProblems(ctx context.Context, c *client.Client, names []string, g *getFlags) error {
	if len(names) == 1 {
		p, err := c.Problems.Get(ctx, names[0])
		if err != nil {
			return err
		}
		if g.output.machine() {
			return a.printValue(*g.output, p)
		}
		return a.problemTable([]v1.Problem{p}, g).write(a.Env)
	}
	namespace := a.ns()
	if g.all {
		namespace = ""
	}
	items, after, err := readProblems(ctx, c, namespace, g, g.open)
	if err != nil {
		return err
	}
	if g.output.machine() {
		return a.printValue(*g.output, v1.ProblemList{Items: items, Next: after})
	}
	if !g.open { // what is open comes first, however old it is
		open, more, err := readProblems(ctx, c, namespace, g, true)
		if err != nil {
			return err
		}
		items = append(open, slices.DeleteFunc(items, func(p v1.Problem) bool { return p.Closed.IsZero() })...)
		if after == "" {
			after = more
		}
		if g.limit > 0 && len(items) > g.limit {
			items, after = items[:g.limit], "more"
		}
	}
	if len(items) == 0 {
		what := "no problems"
		if g.open {
			what = "no open problems"
		}
		if g.unfiltered() && !g.all {
			what += " in namespace " + a.ns() + ": look at all with -A"
		}
		fmt.Fprintln(a.Stdout, what)
		return nil
	}
	if err := a.problemTable(items, g).write(a.narrow(*g.output)); err != nil {
		return err
	}
	if after != "" {
		fmt.Fprintln(a.Stdout, "there are more: --limit 0 shows all, --open those that are open")
	}
	return nil
}

// readProblems reads pages until limit rows are there; 0: all.
func readProblems(ctx context.Context, c *client.Client, namespace string, g *getFlags, open bool) (items []v1.Problem, after string, err error) {
	for {
		size := pageRows
		if g.limit > 0 {
			size = min(size, g.limit-len(items))
		}
		page, err := c.Problems.List(ctx, namespace, g.node, g.check, open, size, after, g.narrow())
		if err != nil {
			return nil, "", err
		}
		items = append(items, page.Items...)
		if after = page.Next; after == "" || g.limit > 0 && len(items) >= g.limit {
			return items, after, nil
		}
	}
}

func (a *app) problemTable(items []v1.Problem, g *getFlags) *table {
	head := []string{"ID", "STATE", "NODE", "SOURCE", "OPENED", "LASTED"}
	held := anyHeld(a, items, func(p *v1.Problem) *v1.OpenProblem { return &p.OpenProblem })
	if held {
		head = append(head, "HELD")
	}
	head = append(head, "OUTPUT")
	if g.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	t := newTable(head...)
	for _, p := range items {
		state, until := cell{"OPEN " + p.Status.String(), statusCell(p.Status).colour}, a.Now()
		switch {
		case p.Ack.Active(a.Now()):
			state.text = "ACK " + p.Status.String()
		case len(p.Holds) > 0:
			state.text = strings.ToUpper(p.Holds[0].Kind) + " " + p.Status.String()
		}
		if !p.Closed.IsZero() {
			state, until = cell{"closed", green}, p.Closed
		}
		var row []any
		if g.all {
			row = append(row, p.Namespace)
		}
		row = append(row, p.ID, state, p.Node, p.Source.String(), model.Age(a.Now(), p.Opened)+" ago", model.TimeSpan(until.Sub(p.Opened)))
		if held {
			row = append(row, dash(a.held(&p.OpenProblem)))
		}
		t.add(append(row, problemOutput(p, g))...)
	}
	return t
}

func problemOutput(p v1.Problem, g *getFlags) string {
	if *g.output == "wide" {
		return firstLine(p.Output)
	}
	return summary(p.Output)
}

func (a *app) getQueues(ctx context.Context, c *client.Client, names []string, g *getFlags) error {
	if g.selector != "" {
		return model.Errorf(model.Invalid, "a queue has no labels").WithHint("muster get queues --where 'row.depth > 0'")
	}
	list, err := c.Queues(ctx, g.narrow())
	if err != nil {
		return err
	}
	if list.Items, err = queuesNamed(list.Items, names); err != nil {
		return err
	}
	if g.output.machine() {
		return a.printValue(*g.output, list)
	}
	t := newTable("QUEUE", "DEPTH", "CAPACITY", "UNIT", "WHEN FULL", "PASSED", "OVERFLOWED")
	for _, q := range list.Items {
		depth := cell{text: strconv.FormatInt(q.Depth, 10)}
		if q.Capacity > 0 && q.Depth*10 >= q.Capacity*8 {
			depth.colour = yellow
		}
		t.add(q.Name, depth, strconv.FormatInt(q.Capacity, 10), q.Unit, q.Policy, strconv.FormatUint(q.Passed, 10), strconv.FormatUint(q.Overflow, 10))
	}
	return t.write(a.Env)
}

// queuesNamed leaves those of these names; none: all.
func queuesNamed(all []v1.Queue, names []string) (list []v1.Queue, err error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(q v1.Queue) bool { return q.Name == name })
		if i < 0 {
			known := make([]string, len(all))
			for i, q := range all {
				known[i] = q.Name
			}
			e := model.Errorf(model.NotFound, "there is no queue %q", name)
			if near := model.Nearest(name, known); near != "" {
				return nil, e.WithHint("did you mean %s? what there is: muster get queues", near)
			}
			return nil, e.WithHint("what there is: muster get queues")
		}
		list = append(list, all[i])
	}
	return list, nil
}
