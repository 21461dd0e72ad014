package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Values judges a run of values and returns its report.
func Values(p *plan.Plan, sc *scenario.Scenario, log []observe.Line) *report.Report {
	var state *observe.State
	for _, line := range log {
		if line.State != nil {
			state = line.State
		}
	}
	s := &report.Signals{Unit: report.Value, Items: p.Items(), Findings: Judge(p, log, state)}
	if state != nil {
		s.Compared = fmt.Sprintf("count and sum of %s series, every value of 16 nodes at most, the problems of all triggers", number.Count(p.Items()))
	}
	return signals(&p.Timing, sc, log, s)
}

// Directives judges a run of directives and returns its report.
func Directives(p *plan.Directives, sc *scenario.Scenario, log []observe.Line) *report.Report {
	var state *observe.Runs
	for _, line := range log {
		if line.Runs != nil {
			state = line.Runs
		}
	}
	s := &report.Signals{Unit: report.Component, Items: p.Runs(), Findings: JudgeRuns(p, log, state)}
	if state != nil {
		s.Compared = "statuses of all components by node, nodes of all directives; of 16 nodes at most each status, each entry of history, all signatures and the inventory"
	}
	return signals(&p.Timing, sc, log, s)
}

// signals returns the report of a log. Rates, latencies and costs are of the seconds behind the warm-up and before the
// first fault of the server. The times of the last outage are -1 as long as the log does not have them.
func signals(p *plan.Timing, sc *scenario.Scenario, log []observe.Line, s *report.Signals) *report.Report {
	rep := &report.Report{Schema: report.Schema, Title: sc.FullTitle(), Scenario: sc, Valid: true, Balance: &report.Balance{}, Course: report.Course{Signals: s},
		Plan: report.Plan{Agents: p.Nodes, Checks: (s.Items + p.Nodes/2) / p.Nodes, Seed: sc.Seed}}
	warmup, fault := time.Duration(0), p.Steady
	for _, phase := range sc.Phases {
		warmup += time.Duration(phase.Warmup)
	}
	var queries, applied, held observe.Histogram
	var first, before *observe.Second
	var counted []*observe.Second
	for _, line := range log {
		outage := &report.Outage{}
		if n := len(rep.Outages); n > 0 {
			outage = &rep.Outages[n-1]
		}
		since := line.At.Seconds() - outage.Second
		switch x := line.Second; {
		case line.Start != nil:
			rep.Began, rep.Plan.Offered, rep.ConnectSeconds, rep.ReadySeconds = line.Start.Unix, line.Start.Values, line.Start.Ready, line.Start.Ready
			rep.AllowLag(cmp.Or(line.Start.MaxLag, report.UsualSignalLag), report.UsualSignalLag)
			if line.Start.Startup != nil {
				s.Startup = report.Startup(*line.Start.Startup)
			}
		case line.Edit != nil:
			applied.Record(int64(line.Edit.Applied), 1)
			held.Record(int64(line.Edit.Held), 1)
		case line.Wrong > 0:
			rep.Faults = append(rep.Faults, report.Struck{What: "wrong frames", At: line.At.Seconds(), Places: line.Wrong})
		case line.Mark == observe.MarkKilled || line.Mark == observe.MarkStopped:
			fault = min(fault, line.At)
			rep.Faults = append(rep.Faults, report.Struck{What: line.Mark, At: line.At.Seconds()})
			rep.Outages = append(rep.Outages, report.Outage{Second: line.At.Seconds(), Lost: p.Nodes, Command: true, Serving: -1, Acked: -1, Seconds: -1})
		case line.Mark == observe.MarkReady:
			outage.Serving = since
		case line.Mark == observe.MarkBack:
			outage.Seconds = since
		case line.Heap > 0:
			s.Heap = line.Heap
		case line.Query > 0:
			queries.Record(int64(line.Query), 1)
		case x != nil:
			if outage.Serving > 0 && outage.Acked < 0 && x.Acked > 0 {
				outage.Acked = since
			}
			rep.Samples, before = append(rep.Samples, sampleOf(line.At, x, before)), x
			rep.Server.RSS = max(rep.Server.RSS, x.RSS)
			rep.Balance.Acknowledged += x.Acked
			switch {
			case line.At < warmup || line.At > fault || x.PID == 0 || first != nil && x.PID != first.PID:
			case first == nil:
				first = x
			default:
				counted = append(counted, x)
			}
		}
	}
	rep.Balance.Sent = rep.Balance.Acknowledged
	if len(counted) > 0 {
		measureSignals(rep, first, counted)
	}
	if n := uint64(queries.Count()); n > 0 {
		rep.Operators = append(rep.Operators, report.Worked{What: "query", Requests: n, Latency: queries.Latency()})
	}
	if n := held.Count(); n > 0 && len(p.Edits) > 0 { // a log may have changes that its scenario does not plan
		rep.Operators = append(rep.Operators, report.Worked{What: "apply", Requests: uint64(n), Latency: applied.Latency()})
		rep.Changes = []report.Held{{What: "a directive that all nodes have", At: p.Edits[0].Seconds(), Agents: p.Nodes, Changes: int(n), Answered: applied.Latency(), Holds: held.Latency()}}
	}
	if s.Compared == "" {
		rep.Stopped = &report.Stopped{Of: p.Steady.Seconds(), By: "the end of the loader, before it read the server's state"}
		if n := len(rep.Samples); n > 0 {
			rep.Stopped.After = float64(rep.Samples[n-1].Second)
		}
		rep.Verdict = append(rep.Verdict, rep.Stopped.Sentence())
	} else {
		rep.Balance.Compared = s.Items
	}
	if lag, most := rep.Lag.P99, rep.Plan.MaxLag; lag > most {
		rep.Valid = false
		rep.Verdict = append(rep.Verdict, fmt.Sprintf("invalid: the generator fell behind (p99 of the seconds %.1f ms after the due time, allowed %.0f ms)", lag, most))
	}
	rep.Verdict = append(rep.Verdict, rep.Wrong().Sentences()...)
	rep.Goals = Judgeable(rep, Judged(report.Goals(sc.Objectives, ""), rep))
	for _, g := range rep.Goals {
		if !g.Met {
			rep.Verdict = append(rep.Verdict, "short: "+g.String())
		}
	}
	return rep
}

// sampleOf returns a second of the report; before is the second before it, or nil.
func sampleOf(at time.Duration, x, before *observe.Second) report.Sample {
	l := report.Latency{P50: x.Latency.P50, P99: x.Latency.P99, P999: x.Latency.P999, Max: x.Latency.Max}
	s := report.Sample{Second: int(at.Round(time.Second).Seconds()), Sent: x.Sent, Acked: x.Acked, Refused: x.Refused, ServerRSS: x.RSS, Latency: &l, Lag: x.Lag}
	if before != nil {
		s.LoaderCPU = x.Own - before.Own
		if x.PID == before.PID {
			s.ServerCPU = x.CPU - before.CPU
		}
	}
	return s
}

// measureSignals fills in rates, latencies and costs of some seconds; first is the second before them. Latencies are
// medians of the seconds.
func measureSignals(rep *report.Report, first *observe.Second, seconds []*observe.Second) {
	of := func(value func(x *observe.Second) float64) (list []float64) {
		for _, x := range seconds {
			list = append(list, value(x))
		}
		return list
	}
	last, n := seconds[len(seconds)-1], float64(len(seconds))
	for _, x := range seconds {
		rep.Results += x.Acked
	}
	rep.Plan.Duration, rep.Rate = n, float64(rep.Results)/n
	share := rep.Rate / max(rep.Plan.Offered, 1)
	rep.InTime = &share
	rep.Server.Cores, rep.Loader.Cores = (last.CPU-first.CPU)/n, (last.Own-first.Own)/n
	rep.MachineShare = report.MachineShare(rep.Server, rep.Loader)
	if rep.Results > 0 {
		rep.Server.MicrosPerItem, rep.Loader.MicrosPerItem = (last.CPU-first.CPU)*1e6/float64(rep.Results), (last.Own-first.Own)*1e6/float64(rep.Results)
	}
	rep.Latency = report.Latency{P50: median(of(func(x *observe.Second) float64 { return x.Latency.P50 })), P99: median(of(func(x *observe.Second) float64 { return x.Latency.P99 })),
		P999: median(of(func(x *observe.Second) float64 { return x.Latency.P999 })), Max: slices.Max(of(func(x *observe.Second) float64 { return x.Latency.Max }))}
	rep.BeyondLinger = rep.Latency                              // values wait for no others
	lag := of(func(x *observe.Second) float64 { return x.Lag }) // the greatest of each second: bounds of the percentiles
	slices.Sort(lag)
	quantile := func(q float64) float64 { return lag[int(math.Ceil(q*n))-1] }
	rep.Lag = report.Latency{P50: median(lag), P99: quantile(0.99), P999: quantile(0.999), Max: slices.Max(lag)}
}
