package report

import (
	"fmt"
	"strings"
)

// NotCompared is what is said of a run whose ledger had no states of the server beside it.
const NotCompared = "not compared: whether the server holds what it acknowledged was not looked at"

// Text is the summary for people.
func (rep *Report) Text() string {
	if rep.Asked() {
		return rep.targetText()
	}
	var b strings.Builder
	p := rep.Plan
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	each := " × " + some(p.Checks, "check")
	if s := rep.Scenario; s != nil && len(s.Agents) > 1 {
		each = fmt.Sprintf(" of %d classes", len(s.Agents))
	}
	fmt.Fprintf(&b, "%s%s, %s, %s results/s offered for %.0f s\n", some(p.Agents, "agent"), each, rep.Transport(), rep.rates(), rep.Lasted())
	switch {
	case !rep.Balance.WasCompared():
		b.WriteString("  " + NotCompared + "\n")
	case len(rep.Verdict) == 0 || rep.OK() || rep.OnlyStopped():
		b.WriteString("  nothing lost, nothing twice, the generator kept up\n")
	}
	mark := "!"
	if rep.OK() {
		mark = "·" // to be known, and nothing is wrong with it
	}
	for _, v := range rep.Verdict {
		b.WriteString("  " + mark + " " + v + "\n")
	}
	for _, label := range rep.Label {
		if strings.Contains(rep.Title, label) {
			continue // it stands above
		}
		line("label", "%s", label)
	}
	for _, g := range rep.Goals {
		if g.Met {
			line("reached", "%s", g)
		}
	}
	line("connected", "all within %.2f s, all checks held after %.2f s", rep.ConnectSeconds, rep.ReadySeconds)
	line("acknowledged", "%s results/s; %d per frame (p50), %.1f mean, %d p99", perSecond(rep.Rate), rep.Batch.P50, rep.Batch.Mean, rep.Batch.P99)
	lat := func(l Latency) string {
		return fmt.Sprintf("p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f ms", l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	line("latency", "%s (from the intended time)", lat(rep.Latency))
	line("beyond linger", "%s (linger %.0f ms)", lat(rep.BeyondLinger), p.Linger)
	line("generator lag", "%s", lat(rep.Lag))
	if rep.Scenario != nil {
		rep.phaseLines(line)
	}
	if rep.Turns != nil {
		line("turns", "%s", rep.Turns)
	}
	for _, o := range rep.Outages {
		serving := ""
		if o.Serving != 0 {
			serving = fmt.Sprintf("serving after %s, ", after(o.Serving))
		}
		line("outage", "%d agents away at %.1f s; %sacknowledging after %s, all back after %s", o.Lost, o.Second, serving, after(o.Acked), after(o.Seconds))
	}
	use := func(u Usage) string {
		waited := ""
		if u.LockShare > 0 {
			waited = fmt.Sprintf(", waiting for locks %.1f %% of its processors' time", 100*u.LockShare)
		}
		return fmt.Sprintf("%.2f cores, %.1f µs CPU per result, %d MiB resident", u.Cores, u.MicrosPerItem, u.RSS>>20) + waited
	}
	if rep.Server.RSS > 0 {
		line("server", "%s", use(rep.Server))
		resident := ""
		if rep.SessionBytes > 0 && p.Agents > fewAgents {
			resident = fmt.Sprintf("%.1f kB resident per agent before any result, ", rep.SessionBytes/1000)
		}
		line("session", "%s%.2f ms of server CPU to connect", resident, 1000*rep.ConnectCPU/float64(p.Agents))
	}
	if rep.StateBytes > 0 {
		line("event states", "%d, %.0f bytes resident each", rep.States, rep.StateBytes)
	}
	each = ""
	if p.Agents > fewAgents {
		each = fmt.Sprintf(", %.1f kB and %.1f goroutines per agent", rep.AgentBytes/1000, rep.Goroutines)
	}
	line("loader", "%s%s", use(rep.Loader), each)
	for i, l := range rep.Loaders {
		line(fmt.Sprintf("loader %d", i+1), "%s: %d agents, lag p99 %.1f ms, %s", l.where(), l.Agents, l.Lag.P99, use(l.Usage))
	}
	if rep.Server.RSS > 0 {
		line("machine", "%.0f %% of its %d cores by both, %.2f cores by others", 100*rep.MachineShare, rep.Machine.Cores, rep.Others)
	}
	for _, w := range rep.Operators {
		failed := ""
		if w.Failed > 0 {
			failed = fmt.Sprintf(", %d failed", w.Failed)
			if w.FailedAway > 0 {
				failed += fmt.Sprintf(" (%d while the server was away)", w.FailedAway)
			}
			if w.Why != "" {
				failed += ": " + w.Why
			}
		}
		if w.Unanswered > 0 {
			failed = fmt.Sprintf(", %d given up without an answer", w.Unanswered) + failed
		}
		line("people, "+w.What, "p50 %.1f  p99 %.1f  max %.1f ms, %d times%s", w.Latency.P50, w.Latency.P99, w.Latency.Max, w.Requests, failed)
	}
	for _, h := range rep.Changes {
		never := ""
		if h.Never > 0 {
			never = fmt.Sprintf(", %d never did", h.Never)
		}
		if h.Unasked > 0 {
			never += fmt.Sprintf(", %d changes were not made before the run was over", h.Unasked)
		}
		if h.All.Max > 0 {
			never = fmt.Sprintf("; by all of them after p50 %.1f  max %.1f ms", h.All.P50, h.All.Max) + never
		}
		if h.Answered.Max > 0 {
			never += fmt.Sprintf("; answered p99 %.1f  max %.1f ms after it was meant", h.Answered.P99, h.Answered.Max)
		}
		line("intent", "%s: held after p50 %.1f  p99 %.1f  max %.1f ms, %d times%s", h.What, h.Holds.P50, h.Holds.P99, h.Holds.Max, h.Agents, never)
	}
	if t := rep.Notifications; t != nil {
		more := ""
		if t.Extra > 0 {
			more = fmt.Sprintf(", %d too many", t.Extra)
		}
		if t.Unclear > 0 {
			more += fmt.Sprintf(", %s not judged", some(int(t.Unclear), "state"))
		}
		line("messages", "p50 %.1f  p99 %.1f  p99.9 %.1f  max %.1f ms, %d of %d came%s", t.Latency.P50, t.Latency.P99, t.Latency.P999, t.Latency.Max, t.Due-t.Missing, t.Due, more)
	}
	if s := rep.Streamed; s != nil {
		line("stream", "p50 %.1f  p99 %.1f  p99.9 %.1f  max %.1f ms, %d of %d lines came over %s, %d twice", s.Latency.P50, s.Latency.P99, s.Latency.P999, s.Latency.Max, s.Lines, s.Lines+s.Missing, some(s.Connections, "connection"), s.Twice)
	}
	bal := rep.Balance
	line("ledger", "%s", bal)
	if c := rep.Calls; c != nil {
		line("calls", "%.0f reads, %.0f writes, %.0f fsyncs a second; %.2f frames per read, %.0f results per commit", c.Reads, c.Writes, c.Syncs, c.FramesPerRead, c.ResultsPerCommit)
	}
	if d := rep.Disk; d != nil {
		line("disk", "%.0f bytes per result, %.1f GB a day; %.0f %% journal, %.0f %% snapshots", d.PerResult, d.PerDay/1e9, percent(d.Journal, d.Written), percent(d.Snapshots, d.Written))
	}
	return b.String()
}

// phaseLines are of each phase that sent, and of each fault.
func (rep *Report) phaseLines(line func(name, format string, args ...any)) {
	for _, p := range rep.Phases {
		if p.Rate == 0 {
			continue
		}
		more := ""
		if p.Short {
			more = ", cut short and not judged"
		}
		if p.Settled > 0 {
			more = fmt.Sprintf(", settled after %.0f s", p.Settled)
		}
		if p.Lag.P99 >= 100 {
			more += fmt.Sprintf(", generator lag p99 %.0f ms", p.Lag.P99)
		}
		if p.InTime != nil && *p.InTime < 0.9995 {
			more += fmt.Sprintf(", %.3g %% in time", 100**p.InTime)
		}
		if len(p.Missed) > 0 {
			more += "; " + strings.ReplaceAll(strings.Join(p.Missed, "; "), p.Name+": ", "")
		}
		line("phase", "%s: %s of %s results/s acknowledged, p50 %.1f  p99 %.1f ms%s", p.Name, perSecond(p.Acknowledged), perSecond(p.Offered), p.Latency.P50, p.Latency.P99, more)
		if len(p.NotJudged) > 0 {
			line("not judged", "%s beside %s", p.Name, strings.Join(p.NotJudged, "; "))
		}
	}
	if f, ok := figureOf("saturation"); ok {
		if v, reached := f.of(rep); reached {
			line("saturation", "%.0f results/s in the last step that held", v)
		}
	}
	if s := rep.Silent; s != nil && s.Unjudged == "" {
		line("silence", "%d of %s called silent while they had a session", s.Extra, some(s.Machines, "machine"))
	}
	for _, f := range rep.Faults {
		more := ""
		if f.Places > 0 {
			more = ": " + some(f.Places, "place")
		}
		if f.Alerts > 0 {
			more += fmt.Sprintf(", %d of %s came", f.Alerts-f.Missing, some(f.Alerts, "alert"))
		}
		if f.Back > 0 {
			more += fmt.Sprintf(", as before after %.2f s", f.Back)
		}
		line("fault", "%s at %.1f s%s", f.What, f.At, more)
	}
}

// some is a number of things: 1 place, 5 places.
func some(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// perSecond shows what can be told of a rate.
func perSecond(v float64) string {
	if v >= 10 || v == 0 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// rates are the least and the greatest that were offered.
func (rep *Report) rates() string {
	low, high, _ := rep.Offered()
	if perSecond(low) == perSecond(high) {
		return perSecond(low)
	}
	return perSecond(low) + " to " + perSecond(high)
}

// fewAgents is up to how many what a process takes beside them hides what they take.
const fewAgents = 100

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }

// after is a time of an outage.
func after(seconds float64) string {
	if seconds < 0 {
		return "the end (not before)"
	}
	return fmt.Sprintf("%.2f s", seconds)
}
