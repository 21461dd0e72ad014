package report

import (
	"fmt"
	"strings"
)

// targetText is the summary of a run against a system that is not Muster.
func (rep *Report) targetText() string {
	var b strings.Builder
	p, t := rep.Plan, rep.Targeted
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "%d agents × %d checks of %s %s, %s results/s offered for %.0f s\n", p.Agents, p.Checks, t.Name, t.Version, rep.rates(), rep.Lasted())
	if len(rep.Verdict) == 0 || rep.OnlyStopped() {
		b.WriteString("  nothing lost, every request came and was answered\n")
	}
	for _, v := range rep.Verdict {
		b.WriteString("  ! " + v + "\n")
	}
	for _, label := range rep.Label {
		line("label", "%s", label)
	}
	for _, g := range rep.Goals {
		if g.Met {
			line("reached", "%s", g)
		}
	}
	lat := func(l Latency) string {
		return fmt.Sprintf("p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f ms", l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	line("registered", "all started within %.2f s, all registered after %.2f s", rep.ConnectSeconds, rep.ReadySeconds)
	line("requests", "%d came, %d were missing, %d not to be answered", t.Requests, t.Missed, t.Dropped)
	line("results", "%.0f/s left; nothing is acknowledged", rep.Rate)
	line("latency", "%s (from the issue of a request, in whole seconds, until its result had left)", lat(rep.Latency))
	line("generator lag", "%s (from the arrival of a request)", lat(rep.Lag))
	line("connections", "%d lost, %d not opened, %d keepalives sent", t.Lost, t.Failed, t.Alive)
	if rep.Server.RSS > 0 {
		line("server", "%.2f cores, %.1f µs CPU per result, %d MiB resident", rep.Server.Cores, rep.Server.MicrosPerItem, rep.Server.RSS>>20)
		line("machine", "%.0f %% of its %d cores by both, %.2f cores by others", 100*rep.MachineShare, rep.Machine.Cores, rep.Others)
	}
	line("loader", "%.2f cores, %d MiB resident; %.1f kB and %.1f goroutines per agent", rep.Loader.Cores, rep.Loader.RSS>>20, rep.AgentBytes/1000, rep.Goroutines)
	l := rep.Balance
	line("ledger", "%d sent, %d of them held in the end, %d missing, %d unsure; %d states compared, %d differ", l.Sent, l.Acknowledged, l.Missing, l.Unsure, l.Compared, l.Differ)
	return b.String()
}
