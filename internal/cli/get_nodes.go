package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

const tokenHint = "Print the command for a new machine: muster node token"

// maxRows is the most rows that the API returns at once.
const maxRows = 100_000

// rowLimit returns how many rows to request under the flag --limit, from a list without pages.
func rowLimit(limit int) int {
	if limit > 0 {
		return limit
	}
	return maxRows
}

// getNodes lists nodes with sessions and events, worst first.
func getNodes(c *commandCall, g *getFlags) error {
	namespace, err := c.cutNamespacePrefix(&g.group)
	if err != nil {
		return err
	}
	c.sortBy = strings.Replace(c.sortBy, ".metadata.", ".", 1) // rows have name, namespace and labels beside the state
	filter := v1.NodeFilter{Namespace: namespace, Selector: g.Selector, Where: g.Where, Group: g.group, Limit: rowLimit(g.limit)}
	if g.watch {
		return watchNodes(c, filter, func() error { return listNodes(c, g, filter) })
	}
	return listNodes(c, g, filter)
}

// listNodes prints the nodes that the flags select, and the number of further nodes.
func listNodes(c *commandCall, g *getFlags, filter v1.NodeFilter) error {
	l, err := c.api.Nodes.States(c.ctx, filter)
	if err != nil {
		return err
	}
	empty := g.emptyText("nodes", g.group != "", filter.Namespace, tokenHint)
	left := l.Total - len(l.Items)
	more := textIf(left > 0, fmt.Sprintf("%d more; %d of all %d have problems. --limit 0 shows all, -l selects", left, l.Wrong, l.Total))
	others := textIf(l.OtherNamespaces > 0 && l.Total > 0 && c.namespaceImplied, model.CountNoun(l.OtherNamespaces, "node")+" in other namespaces: -A shows all")
	return nodeList(c, l, empty, more, others).print(c)
}

// nodeList returns the table of nodes, worst first.
func nodeList(c *commandCall, l v1.NodeStateList, empty string, notes ...string) listOutput[v1.NodeState] {
	return listOutput[v1.NodeState]{
		value: l, items: l.Items, empty: empty, notes: notes,
		columns: screen.SplitColumns("NAMESPACE|STATUS|NAME|NOT OK|SEEN|SESSION|GROUPS|OS|AGENT|PROBLEMS|LABELS").
			HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(c.Format == screen.Wide, "AGENT", "PROBLEMS", "LABELS"),
		row: func(n v1.NodeState) []any {
			seen, session := "never", "no"
			if !n.LastHeartbeat.IsZero() {
				seen = model.Age(c.Now(), n.LastHeartbeat)
			}
			switch {
			case n.Proxy:
				seen, session = "", "proxy"
			case n.Connected:
				session = "yes"
			}
			return []any{
				n.Namespace, nodeStatus(n), n.Name, n.Events.Failing(), seen, session, groupsWithoutAll(n.Groups), n.OS, n.Agent, n.Problems, labelText(n.Labels),
			}
		},
	}
}

// nodeStatus returns a table cell with the worst status of a node's events, or its agent's state. For a node
// without events, it returns the state of its agent.
func nodeStatus(n v1.NodeState) screen.Cell {
	switch {
	case n.Silent:
		return screen.Cell{Text: "SILENT", Colour: screen.Red}
	case n.LastHeartbeat.IsZero() && !n.Connected && n.Events.NotOK() == 0:
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

// groupsWithoutAll returns the groups of a node without shared/all, to which every node belongs.
func groupsWithoutAll(groups []string) string {
	own := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return g == model.SharedNamespaceName+"/all" })
	return strings.Join(own, ",")
}

// labelText formats a node's labels as NAME=VALUE, sorted by name.
func labelText(labels map[string]string) string {
	names := slices.Sorted(maps.Keys(labels))
	for i, name := range names {
		names[i] = name + "=" + labels[name]
	}
	return strings.Join(names, ",")
}

// getAgents lists agents, oldest version first. Within a version, agents with problems come first.
func getAgents(c *commandCall, names []string, g *getFlags) (err error) {
	var l v1.AgentList
	if len(names) == 0 {
		l, err = c.api.Nodes.Agents(c.ctx, v1.AgentFilter{
			Namespace: c.listNamespace(), Selector: g.Selector, Where: g.Where, Version: g.version, Spooling: g.spooling,
			Disconnected: g.disconnected, Limit: rowLimit(g.limit),
		})
	}
	for _, name := range names {
		namespace, name, err := c.findObject(kind.Node().KindInfo, name)
		if err != nil {
			return err
		}
		one, err := c.api.Nodes.Agents(c.ctx, v1.AgentFilter{Namespace: namespace, Name: name, Limit: 1})
		if err != nil {
			return err
		}
		if len(one.Items) == 0 {
			return model.Errorf(model.NotFound, "node %s never had an agent", name).
				WithHint("print the command that starts an agent: muster node token")
		}
		l.Items = append(l.Items, one.Items...)
	}
	switch {
	case err != nil:
		return err
	case len(names) == 1 && c.Format.IsForPrograms():
		return c.WriteValue(l.Items[0])
	}
	var notes []string
	if len(names) == 0 && len(l.Items) > 0 {
		more := l.Total - len(l.Items)
		notes = []string{
			textIf(more > 0, fmt.Sprintf("%d more: --limit 0 shows all; --disconnected, --spooling, --version and -l select", more)), agentSummary(l),
		}
	}
	empty := g.emptyText("agents", g.version != "" || g.spooling || g.disconnected, c.listNamespace(), tokenHint)
	return listOutput[v1.Agent]{
		value: l, items: l.Items, empty: empty, notes: notes,
		columns: screen.SplitColumns("NAMESPACE|VERSION|NODE|SESSION|WAITS|SKIP/LATE|FORKS/MIN|SENT/DAY|LOST|MEMORY|ADDRESS|CLOCK|CERTIFICATE|REFUSES").
			HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(c.Format == screen.Wide, "LOST", "MEMORY", "ADDRESS", "CLOCK", "CERTIFICATE", "REFUSES"),
		row: func(a v1.Agent) []any { return agentCells(c, a) },
	}.print(c)
}

// summaryVersions is how many versions the summary of agents names.
const summaryVersions = 5

// agentSummary returns a line with the number of agents by version. It also has the number of agents with problems.
func agentSummary(l v1.AgentList) string {
	var parts []string
	for i, v := range l.Versions {
		if i == summaryVersions {
			parts = append(parts, fmt.Sprintf("%d other versions", len(l.Versions)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d of %s", v.Agents, cmp.Or(v.Version, "an unknown version")))
	}
	text := model.CountNoun(l.Total, "agent") + ": " + strings.Join(parts, ", ")
	text += textIf(l.Disconnected > 0, fmt.Sprintf("; %d not connected", l.Disconnected))
	text += textIf(l.Spooling > 0, fmt.Sprintf("; %d with results waiting", l.Spooling))
	return text
}

// agentCells returns the table cells of one agent for muster get agents
func agentCells(c *commandCall, a v1.Agent) []any {
	row := []any{a.Namespace, a.Version, a.Name, sessionCell(c, a)}
	if a.Session == nil {
		return append(row, make([]any, 10)...)
	}
	if s := a.Session.Stats; s != nil {
		waits := any(s.Spooled)
		if age := time.Duration(s.OldestSeconds * float64(time.Second)); age >= time.Minute {
			waits = screen.Cell{Text: fmt.Sprintf("%d, %s", s.Spooled, model.TimeSpan(age)), Colour: screen.Yellow}
		}
		late := screen.Cell{Text: fmt.Sprintf("%d/%d", s.Skipped, s.Late), Colour: screen.Yellow}
		row = append(row, screen.ValueIf(s.Spooled > 0, waits), screen.ValueIf(s.Skipped+s.Late > 0, late), rateText(s.ForksPerMinute), sizeTextIfKnown(s.BytesPerDay),
			faultCountCell(s.Lost+s.GaveWay+s.Refused), sizeTextIfKnown(s.ResidentBytes))
	} else {
		row = append(row, make([]any, 6)...)
	}
	s := a.Session
	return append(row, model.HostOf(s.Address), clockOffsetText(s.ClockOffsetMs), screen.ValueIf(!s.CertificateExpires.IsZero(), c.TimeUntil(s.CertificateExpires)),
		strings.Join(s.Refuses, ", "))
}

// sessionCell returns a table cell with the time since an agent's session began. Without a session, the cell
// has the time since the agent's last message.
func sessionCell(c *commandCall, a v1.Agent) screen.Cell {
	switch {
	case a.Connected && a.Session != nil:
		return screen.Cell{Text: "for " + model.Age(c.Now(), a.Session.Since)}
	case a.Stopped:
		return screen.Cell{Text: "stopped " + c.AgeText(a.LastHeartbeat), Colour: screen.Faint}
	case a.LastHeartbeat.IsZero():
		return screen.Cell{Text: "never", Colour: screen.Yellow}
	}
	return screen.Cell{Text: "gone " + c.AgeText(a.LastHeartbeat), Colour: screen.Red}
}

// faultCountCell returns a table cell with the number of an agent's faults, coloured unless zero.
func faultCountCell(n uint64) screen.Cell {
	if n == 0 {
		return screen.Cell{}
	}
	return screen.Cell{Text: fmt.Sprint(n), Colour: screen.Yellow}
}

// sizeTextIfKnown formats a number of bytes for people, and zero (unknown) as an empty text
func sizeTextIfKnown[T int64 | uint64](bytes T) string {
	if bytes == 0 {
		return ""
	}
	return model.Size(bytes).Approximate()
}

// rateText formats a rate as a number per minute. A small rate has a decimal place.
func rateText(rate float64) string {
	if rate < 10 && rate != math.Trunc(rate) {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// clockOffsetText formats the difference between a node's clock and the server's.
func clockOffsetText(offsetMs int64) string {
	offset := time.Duration(offsetMs) * time.Millisecond
	switch {
	case offset.Abs() < time.Second:
		return "right"
	case offset > 0:
		return model.TimeSpan(offset) + " ahead"
	}
	return model.TimeSpan(-offset) + " behind"
}
