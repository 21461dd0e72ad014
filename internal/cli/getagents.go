package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// getAgents shows the agents themselves: the oldest version first, then by trouble.
func (a *app) getAgents(ctx context.Context, c *client.Client, names []string, g *getFlags) error {
	f := v1.AgentFilter{
		Namespace: a.ns(), Selector: g.selector, Where: g.where, Version: g.version, Spooling: g.spooling, Disconnected: g.disconnected, Limit: g.limit,
	}
	if g.all {
		f.Namespace = ""
	}
	if f.Limit <= 0 {
		f.Limit = everyNode
	}
	var list v1.AgentList
	var err error
	if len(names) == 0 {
		list, err = c.Nodes.Agents(ctx, f)
	}
	for _, name := range names {
		one, asked := c.Nodes.Agents(ctx, v1.AgentFilter{Namespace: a.ns(), Name: name, Limit: 1})
		if asked != nil {
			return asked
		}
		if len(one.Items) == 0 {
			return model.Errorf(model.NotFound, "node %s never had an agent", name).
				WithHint("make a token with muster node token and start muster-agent with it")
		}
		list.Items = append(list.Items, one.Items...)
	}
	switch {
	case err != nil:
		return err
	case g.output.machine() && len(names) == 1:
		return a.printValue(*g.output, list.Items[0])
	case g.output.machine():
		return a.printValue(*g.output, list)
	case len(list.Items) == 0:
		fmt.Fprintln(a.Stdout, a.noAgents(g))
		return nil
	}
	if err := a.agentTable(list.Items, g).write(a.narrow(*g.output)); err != nil || len(names) > 0 {
		return err
	}
	if more := list.Total - len(list.Items); more > 0 {
		a.wrapped(fmt.Sprintf("%d more: --limit 0 shows all; --disconnected, --spooling, --version and -l narrow", more), 2)
	}
	a.wrapped(clean(agentSummary(list), false), 2)
	return nil
}

func (a *app) noAgents(g *getFlags) string {
	switch {
	case g.selector+g.where != "" || g.version != "" || g.spooling || g.disconnected:
		return "no agents match"
	case g.all:
		return "no agents yet: muster node token prints the line that makes a machine a node"
	}
	return fmt.Sprintf("no agents in namespace %s: look at all with -A; muster node token prints the line that makes a machine a node", a.ns())
}

// versionsShown is how many versions the summary names.
const versionsShown = 5

// agentSummary is how many agents have which version, and how many are in trouble.
func agentSummary(list v1.AgentList) string {
	var parts []string
	for i, v := range list.Versions {
		if i == versionsShown {
			parts = append(parts, fmt.Sprintf("%d other versions", len(list.Versions)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d of %s", v.Agents, cmp.Or(v.Version, "an unknown version")))
	}
	text := model.CountNoun(list.Total, "agent") + ": " + strings.Join(parts, ", ")
	if list.Disconnected > 0 {
		text += fmt.Sprintf("; %d not connected", list.Disconnected)
	}
	if list.Spooling > 0 {
		text += fmt.Sprintf("; %d with results waiting", list.Spooling)
	}
	return text
}

func (a *app) agentTable(agents []v1.Agent, g *getFlags) *table {
	head := []string{"VERSION", "NODE", "SESSION", "WAITS", "SKIP/LATE", "FORKS/MIN", "SENT/DAY"}
	if g.all {
		head = append([]string{"NAMESPACE"}, head...)
	}
	wide := *g.output == "wide"
	if wide {
		head = append(head, "LOST", "MEMORY", "ADDRESS", "CLOCK", "CERTIFICATE", "REFUSES")
	}
	t := newTable(head...)
	for _, x := range agents {
		var row []any
		if g.all {
			row = append(row, x.Namespace)
		}
		row = append(row, dash(x.Version), x.Name, a.agentSession(x))
		s := x.Session
		if s == nil || s.Stats == nil {
			row = append(row, "-", "-", "-", "-")
			if wide {
				row = append(row, "-", "-")
			}
		} else {
			st := s.Stats
			row = append(row, waiting(st), skippedLate(st), rate(st.ForksPerMinute), perDay(st))
			if wide {
				memory := "-"
				if st.ResidentBytes > 0 {
					memory = model.Size(st.ResidentBytes).Approximate()
				}
				row = append(row, number(st.Lost+st.GaveWay+st.Refused), memory)
			}
		}
		if wide && s == nil {
			row = append(row, "-", "-", "-", "-")
		} else if wide {
			expires := "-"
			if !s.CertificateExpires.IsZero() {
				expires = a.until(s.CertificateExpires)
			}
			row = append(row, model.HostOf(s.Address), clockText(s.ClockOffsetMs), expires, dash(strings.Join(s.Refuses, ", ")))
		}
		t.add(row...)
	}
	return t
}

// agentSession is since when, or since when not.
func (a *app) agentSession(x v1.Agent) cell {
	switch {
	case x.Connected && x.Session != nil:
		return cell{text: "for " + model.Age(a.Now(), x.Session.Since)}
	case x.Stopped:
		return cell{"stopped " + model.Age(a.Now(), x.Heard) + " ago", faint}
	case x.Heard.IsZero():
		return cell{"never", yellow}
	}
	return cell{"gone " + model.Age(a.Now(), x.Heard) + " ago", red}
}

// waiting is how many signals wait, and for how long where that is long.
func waiting(st *v1.AgentStats) cell {
	switch old := time.Duration(st.OldestSeconds * float64(time.Second)); {
	case st.Spooled == 0:
		return cell{text: "-"}
	case old >= time.Minute:
		return cell{fmt.Sprintf("%d, %s", st.Spooled, model.TimeSpan(old)), yellow}
	}
	return cell{text: fmt.Sprint(st.Spooled)}
}

// skippedLate are runs that were left out, and runs that began late.
func skippedLate(st *v1.AgentStats) cell {
	if st.Skipped+st.Late == 0 {
		return cell{text: "-"}
	}
	return cell{fmt.Sprintf("%d/%d", st.Skipped, st.Late), yellow}
}

// perDay is what an agent sends in a day; one that has just begun cannot know.
func perDay(st *v1.AgentStats) string {
	if st.BytesPerDay == 0 {
		return "-"
	}
	return model.Size(st.BytesPerDay).Approximate()
}

// number is a count that should be zero.
func number(n uint64) cell {
	if n == 0 {
		return cell{text: "-"}
	}
	return cell{fmt.Sprint(n), yellow}
}

func rate(perMinute float64) string {
	if perMinute < 10 && perMinute != math.Trunc(perMinute) {
		return fmt.Sprintf("%.1f", perMinute)
	}
	return fmt.Sprintf("%.0f", perMinute)
}

// clockText is how far a machine's clock is off the server's.
func clockText(offsetMs int64) string {
	off := time.Duration(offsetMs) * time.Millisecond
	switch {
	case off.Abs() < time.Second:
		return "right"
	case off > 0:
		return model.TimeSpan(off) + " ahead"
	}
	return model.TimeSpan(-off) + " behind"
}

// describeAgent is the agent's part of the description of a node.
func (a *app) describeAgent(ctx context.Context, c *client.Client, namespace, node string) error {
	list, err := c.Nodes.Agents(ctx, v1.AgentFilter{Namespace: namespace, Name: node, Limit: 1})
	if err != nil || len(list.Items) == 0 || list.Items[0].Session == nil {
		return err
	}
	x := list.Items[0]
	s := x.Session
	text := fmt.Sprintf("since %s, from %s", a.when(s.Since), s.Address)
	if off := time.Duration(s.ClockOffsetMs) * time.Millisecond; off.Abs() >= time.Second {
		text += "; its clock is " + clockText(s.ClockOffsetMs)
	}
	a.field("session", "%s", text)
	if !s.CertificateExpires.IsZero() {
		a.field("certificate", "expires %s, %s", s.CertificateExpires.In(a.Zone).Format("2006-01-02"), a.until(s.CertificateExpires))
	}
	if len(s.Refuses) > 0 {
		a.field("refuses", "%s", strings.Join(s.Refuses, ", "))
	}
	for _, u := range s.IdleUnits {
		a.field("not in force", "%s: %s", u.Name, u.Reason)
	}
	if st := s.Stats; st != nil {
		text := fmt.Sprintf("%d runs, %s processes a minute, %s sent", st.Runs, rate(st.ForksPerMinute), model.Size(st.BytesSent).Approximate())
		if st.BytesPerDay > 0 {
			text += " (" + perDay(st) + " a day)"
		}
		if st.ResidentBytes > 0 {
			text += ", " + model.Size(st.ResidentBytes).Approximate() + " of memory"
		}
		a.field("it says", "%s", text)
	}
	if len(x.Trouble) > 0 {
		a.field("its trouble", "%s", strings.Join(x.Trouble, "; "))
	}
	return nil
}
