package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// maxRows is the most rows that the API returns at once.
const maxRows = 100_000

// rowsOrAll returns the limit of a list that the API returns in one page.
func rowsOrAll(limit int) int {
	if limit > 0 {
		return limit
	}
	return maxRows
}

// getNodes lists nodes with sessions and events, worst first.
func getNodes(c *call, g *getFlags) error {
	namespace := c.nsUnless(g.all)
	l, err := c.api.Nodes.States(c.ctx, v1.NodeFilter{Namespace: namespace, Selector: g.Selector, Where: g.Where, Group: g.group, Limit: rowsOrAll(g.limit)})
	if err != nil {
		return err
	}
	empty := "no nodes match"
	switch {
	case g.narrows() || g.group != "":
	case g.all:
		empty = "no nodes yet. Print the command for a new machine: muster node token"
	default:
		empty = fmt.Sprintf("no nodes in namespace %s. All namespaces: -A. Print the command for a new machine: muster node token", namespace)
	}
	more, others := "", ""
	if left := l.Total - len(l.Items); left > 0 {
		more = fmt.Sprintf("%d more; %d of all %d are not well. --limit 0 shows all, -l narrows", left, l.Wrong, l.Total)
	}
	if l.Others > 0 && l.Total > 0 && c.namespaceImplied {
		others = fmt.Sprintf("%s in other namespaces: -A shows all", model.CountNoun(l.Others, "node"))
	}
	return list[v1.NodeState]{value: l, items: l.Items, columns: nodeColumns(c, g.all), empty: empty, notes: []string{more, others}}.print(c)
}

func nodeColumns(c *call, all bool) []screen.Column[v1.NodeState] {
	wide := c.Format == screen.Wide
	return []screen.Column[v1.NodeState]{
		screen.Col("NAMESPACE", func(n v1.NodeState) any { return n.Namespace }).If(all),
		screen.Col("STATUS", func(n v1.NodeState) any { return nodeStatus(n) }),
		screen.Col("NAME", func(n v1.NodeState) any { return n.Name }),
		screen.Col("NOT OK", func(n v1.NodeState) any { return n.Events.Failing() }),
		screen.Col("SEEN", func(n v1.NodeState) any {
			switch {
			case n.Proxy:
				return ""
			case n.Heard.IsZero():
				return "never"
			}
			return model.Age(c.Now(), n.Heard)
		}),
		screen.Col("SESSION", func(n v1.NodeState) any {
			switch {
			case n.Proxy:
				return "proxy"
			case n.Connected:
				return "yes"
			}
			return "no"
		}),
		screen.Col("GROUPS", func(n v1.NodeState) any { return ownGroups(n.Groups) }),
		screen.Col("OS", func(n v1.NodeState) any { return n.OS }),
		screen.Col("AGENT", func(n v1.NodeState) any { return n.Agent }).If(wide),
		screen.Col("PROBLEMS", func(n v1.NodeState) any { return n.Problems }).If(wide),
		screen.Col("LABELS", func(n v1.NodeState) any { return labelText(n.Labels) }).If(wide),
	}
}

// nodeStatus returns the worst status of a node's events, or the state of its agent.
func nodeStatus(n v1.NodeState) screen.Cell {
	switch {
	case n.Silent:
		return screen.Cell{Text: "SILENT", Colour: screen.Red}
	case n.Heard.IsZero() && !n.Connected && n.Events.NotOK() == 0:
		return screen.Cell{Text: "NEW", Colour: screen.Faint}
	case n.Stopped && !n.Connected && n.Events.NotOK() == 0:
		return screen.Cell{Text: "STOPPED", Colour: screen.Faint}
	case n.Events.Critical > 0:
		return statusCell(model.Critical)
	case n.Events.Unknown > 0:
		return statusCell(model.Unknown)
	case n.Events.Warning > 0:
		return statusCell(model.Warning)
	}
	return statusCell(model.OK)
}

// ownGroups returns groups without shared/all, which has every node.
func ownGroups(groups []string) string {
	own := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return g == model.SharedNamespaceName+"/all" })
	return strings.Join(own, ",")
}

// labelText returns labels as NAME=VALUE, by name.
func labelText(labels map[string]string) string {
	names := slices.Sorted(maps.Keys(labels))
	for i, name := range names {
		names[i] = name + "=" + labels[name]
	}
	return strings.Join(names, ",")
}
