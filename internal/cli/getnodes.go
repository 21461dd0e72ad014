package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// everyNode is the most rows that one request may ask for.
const everyNode = 100_000

// getNodes shows machines as the server sees them, worst first.
func (a *app) getNodes(ctx context.Context, c *client.Client, g *getFlags) error {
	namespace, limit := a.ns(), g.limit
	if g.all {
		namespace = ""
	}
	if limit <= 0 {
		limit = everyNode
	}
	list, err := c.Nodes.States(ctx, v1.NodeFilter{Namespace: namespace, Selector: g.selector, Where: g.where, Group: g.group, Limit: limit})
	if err != nil {
		return err
	}
	if list.Total == 0 {
		switch {
		case g.selector != "" || g.where != "" || g.group != "":
			fmt.Fprintln(a.Stdout, "no nodes match")
		case g.all:
			fmt.Fprintln(a.Stdout, "no nodes yet: muster node token prints the line that makes a machine one")
		default:
			fmt.Fprintf(a.Stdout, "no nodes in namespace %s: look at all with -A; muster node token prints the line that makes a machine one\n", namespace)
		}
		return nil
	}
	if err := a.nodeTable(list.Items, g).write(a.narrow(*g.output)); err != nil {
		return err
	}
	if more := list.Total - len(list.Items); more > 0 {
		fmt.Fprintf(a.Stdout, "%d more; %d of all %d are not well. --limit 0 shows all, -l narrows\n", more, list.Wrong, list.Total)
	}
	if list.Others > 0 && a.inContext {
		fmt.Fprintf(a.Stdout, "%s in other namespaces: -A shows all\n", model.CountNoun(list.Others, "node"))
	}
	return nil
}

func (a *app) nodeTable(nodes []v1.NodeState, g *getFlags) *table {
	head := []string{"STATUS", "NAME", "NOT OK", "SEEN", "SESSION", "GROUPS", "OS"}
	if g.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	wide := *g.output == "wide"
	if wide {
		head = append(head, "AGENT", "PROBLEMS", "LABELS")
	}
	t := newTable(head...)
	for _, n := range nodes {
		var row []any
		if g.all {
			row = append(row, n.Namespace)
		}
		seen, session := "never", "no"
		if !n.Heard.IsZero() {
			seen = model.Age(a.Now(), n.Heard)
		}
		if n.Connected {
			session = "yes"
		}
		if n.Proxy {
			seen, session = "-", "proxy"
		}
		row = append(row, nodeStatus(n), n.Name, n.Events.Failing(), seen, session, groupsOf(n.Groups), dash(n.OS))
		if wide {
			row = append(row, dash(n.Agent), fmt.Sprint(n.Problems), pairs(n.Labels))
		}
		t.add(row...)
	}
	return t
}

// nodeStatus is the word for a machine: of its worst event, unless it does not speak.
func nodeStatus(n v1.NodeState) cell {
	switch {
	case n.Silent:
		return cell{"SILENT", red}
	case n.Heard.IsZero() && !n.Connected && n.Events.NotOK() == 0:
		return cell{"NEW", faint}
	case n.Stopped && !n.Connected && n.Events.NotOK() == 0:
		return cell{"STOPPED", faint}
	case n.Events.Critical > 0:
		return cell{"CRITICAL", red}
	case n.Events.Unknown > 0:
		return cell{"UNKNOWN", purple}
	case n.Events.Warning > 0:
		return cell{"WARNING", yellow}
	}
	return cell{"OK", green}
}

// groupsOf are groups without the one that every node of every namespace is in.
func groupsOf(groups []string) string {
	own := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return g == model.SharedNamespaceName+"/all" })
	return dash(strings.Join(own, ","))
}
