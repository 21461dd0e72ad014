// Package judge decides about a run: it reads the observation log and the final state of the server, and returns findings and
// figures. It is pure: a run can be judged again, and a test judges logs written by hand.
//
// A run of checks: Checks (verdict.go), with a file for each question (phases.go and figures.go, ledger.go, alerts.go,
// messages.go, intent.go, silence.go, roundrobin.go, stalls.go). A run of values: Judge, and a run of
// directives: JudgeRuns (runs.go), which compare the log with the plan.
//
// Goroutines, locks: none. Start reading at Checks.
package judge

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
)

// Finding is one kind of fault of the server, counted.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example"` // the first one
}

// Kind is what is wrong.
type Kind string

// The kinds.
const (
	Lost           Kind = "values lost"
	Doubled        Kind = "values stored twice"
	Wrong          Kind = "series with wrong values"
	Unknown        Kind = "series or problems that nobody caused"
	Unacknowledged Kind = "values not acknowledged"
	Refused        Kind = "signals refused"
	MissingProblem Kind = "problems missing"
	FalseProblem   Kind = "problems too many"
	WrongState     Kind = "triggers in the wrong state"
)

// findings collects findings by kind, in the order in which they came.
type findings []Finding

func (f *findings) add(kind Kind, count int, format string, args ...any) {
	if count <= 0 {
		return
	}
	for i := range *f {
		if (*f)[i].Kind == kind {
			(*f)[i].Count += count
			return
		}
	}
	*f = append(*f, Finding{kind, count, fmt.Sprintf(format, args...)})
}

// Judge compares a run with its plan. State nil: nobody could read it.
func Judge(p *plan.Plan, log []observe.Line, state *observe.State) []Finding {
	var list findings
	acked, sent := make([]uint64, p.Nodes), make([]uint64, p.Nodes)
	for node := range sent {
		sent[node] = p.Ticks(p.Class(node)) // of a loader that was killed: any may be there
	}
	known := state != nil
	for _, line := range log {
		known = known || line.Node != nil
		if n := line.Node; n != nil && n.Number >= 0 && n.Number < p.Nodes {
			acked[n.Number], sent[n.Number] = n.Acked, n.Sent
		}
		if s := line.Second; s != nil {
			list.add(Refused, int(s.Refused), "after %s", line.At.Round(time.Second))
		}
	}
	if !known {
		return list // the loader was killed: which values were acknowledged is unknown
	}
	for node := range p.Nodes {
		c := p.Class(node)
		list.add(Unacknowledged, int(p.Ticks(c)-min(acked[node], p.Ticks(c)))*len(c.Items), "node %d: %d of %d ticks", node, acked[node], p.Ticks(c))
		if state == nil {
			continue
		}
		for of := range c.Items {
			if c.Items[of].Kind.IsText() {
				continue // the series store has numbers alone
			}
			list.judgeSum(p, c, node, of, acked[node], sent[node], state)
			if c.Items[of].Window > 0 && acked[node] == sent[node] {
				list.judgeTrigger(p, c, node, of, acked[node], state)
			}
		}
		if raw, ok := state.Raw[node]; ok {
			list.judgeRaw(p, c, node, acked[node], sent[node], raw)
		}
	}
	if state != nil {
		list.add(Unknown, state.Unknown, "see the server's series and problems")
	}
	return list
}

// judgeSum compares count and sum of an item's values.
func (f *findings) judgeSum(p *plan.Plan, c *plan.Class, node, of int, acked, sent uint64, state *observe.State) {
	count := uint64(state.Counts[node][of])
	name := fmt.Sprintf("node %d, %s", node, c.Items[of].Key)
	f.add(Lost, int(acked)-int(count), "%s: %d values, %d were acknowledged", name, count, acked)
	f.add(Doubled, int(count)-int(sent), "%s: %d values, %d were sent", name, count, sent)
	if count != acked || acked != sent {
		return
	}
	sum := 0.0
	for tick := range acked {
		sum += p.Stored(c, node, of, tick)
	}
	if got := state.Sums[node][of]; math.Abs(got-sum) > 1e-9*math.Abs(sum) {
		f.add(Wrong, 1, "%s: the sum of its values is %v, not %v", name, got, sum)
	}
}

// judgeRaw compares all values of a node's items. Values that a server applied before and after a kill may be in another order, so
// that each is looked for.
func (f *findings) judgeRaw(p *plan.Plan, c *plan.Class, node int, acked, sent uint64, raw [][]float64) {
	for of := range c.Items {
		if c.Items[of].Kind.IsText() {
			continue
		}
		left := map[float64]int{}
		for _, v := range raw[of] {
			left[v]++
		}
		for tick := range sent {
			v := p.Stored(c, node, of, tick)
			if left[v]--; left[v] < 0 && tick < acked {
				f.add(Wrong, 1, "node %d, %s: value %v of tick %d is missing among %d", node, c.Items[of].Key, v, tick, len(raw[of]))
				break
			}
		}
		for v, n := range left {
			if n > 0 {
				f.add(Wrong, 1, "node %d, %s: value %v was not sent so often", node, c.Items[of].Key, v)
				break
			}
		}
	}
}

// judgeTrigger compares the problems of an item's trigger.
func (f *findings) judgeTrigger(p *plan.Plan, c *plan.Class, node, of int, ticks uint64, state *observe.State) {
	opened, open := p.Problems(c, node, of, ticks)
	got := state.Problems[observe.Trigger{Node: node, Item: of}]
	name := fmt.Sprintf("node %d, %s", node, c.Items[of].TriggerName())
	f.add(MissingProblem, opened-got.Opened, "%s: %d instead of %d", name, got.Opened, opened)
	f.add(FalseProblem, got.Opened-opened, "%s: %d instead of %d", name, got.Opened, opened)
	if open != got.Open {
		f.add(WrongState, 1, "%s: a problem is open: %t instead of %t", name, got.Open, open)
	}
}

// Figures are what a run measured, without a verdict.
type Figures struct {
	Nodes    int     `json:"nodes"`
	Items    int     `json:"items"`   // or directives, of all nodes
	Offered  float64 `json:"offered"` // values or components per second
	Acked    float64 `json:"acked"`   // likewise, acknowledged in the steady seconds before the first fault
	Ready    float64 `json:"ready"`   // seconds until all nodes had a session and their assignment
	Seconds  int     `json:"seconds"` // that the figures below are of
	Micros   float64 `json:"micros"`  // µs of server CPU per value or component
	Cores    float64 `json:"cores"`   // that the server used
	Own      float64 `json:"own"`     // that the loader used
	RSS      int64   `json:"rss"`     // of the server, most
	Lag      float64 `json:"lag"`     // ms by which the generator was late, most
	Load     float64 `json:"load"`    // average of the machine
	Heap     float64 `json:"heap"`    // bytes in use on the server behind a collection, before the first fault
	P50      float64 `json:"p50"`     // ms from due to acknowledged, median of the seconds
	P99      float64 `json:"p99"`
	QueryP50 float64 `json:"queryP50"` // ms
	QueryMax float64 `json:"queryMax"`
	Restart  float64 `json:"restart"` // seconds from the kill until the server was ready; zero: no kill
	Back     float64 `json:"back"`    // … and until all sessions were back
	Caught   float64 `json:"caught"`  // … and until a second's latency was below a second again
	Applied  float64 `json:"applied"` // ms until the API answered to a change of a directive, slowest
	Held     float64 `json:"held"`    // ms until all nodes had it, slowest

	Startup observe.Startup `json:"startup"`
}

// Measure computes the figures of a log of a run with so many items or directives. Seconds count behind the warm-up and before the
// first fault of the server.
func Measure(p *plan.Timing, items int, log []observe.Line, warmup time.Duration) (g Figures) {
	g.Nodes, g.Items = p.Nodes, items
	fault := p.Steady
	var p50, p99, queries []float64
	var first, last *observe.Second
	var values uint64
	for _, line := range log {
		switch {
		case line.Start != nil:
			g.Offered, g.Ready = line.Start.Values, line.Start.Ready
			if line.Start.Startup != nil {
				g.Startup = *line.Start.Startup
			}
		case line.Edit != nil:
			g.Applied, g.Held = max(g.Applied, line.Edit.Applied.Seconds()*1000), max(g.Held, line.Edit.Held.Seconds()*1000)
		case line.Mark == observe.MarkKilled || line.Mark == observe.MarkStopped:
			fault = min(fault, line.At)
		case line.Mark == observe.MarkReady && g.Restart == 0:
			g.Restart = (line.At - fault).Seconds()
		case line.Mark == observe.MarkBack && g.Back == 0:
			g.Back = (line.At - fault).Seconds()
		case line.Heap > 0:
			g.Heap = line.Heap
		case line.Query > 0:
			queries = append(queries, line.Query.Seconds()*1000)
		case line.Second != nil:
			s := line.Second
			g.RSS = max(g.RSS, s.RSS)
			if g.Back > 0 && g.Caught == 0 && s.Acked > 0 && s.Latency.P99 < 1000 {
				g.Caught = (line.At - fault).Seconds()
			}
			if line.At < warmup || line.At > fault || s.PID == 0 || first != nil && s.PID != first.PID {
				continue
			}
			if first == nil {
				first = s
				continue
			}
			last = s
			values += s.Acked
			g.Seconds++
			g.Lag, g.Load = max(g.Lag, s.Lag), g.Load+s.Load
			p50, p99 = append(p50, s.Latency.P50), append(p99, s.Latency.P99)
		}
	}
	if last != nil && values > 0 {
		n := float64(g.Seconds)
		g.Acked, g.Load = float64(values)/n, g.Load/n
		g.Micros, g.Cores, g.Own = (last.CPU-first.CPU)*1e6/float64(values), (last.CPU-first.CPU)/n, (last.Own-first.Own)/n
	}
	g.P50, g.P99 = median(p50), median(p99)
	g.QueryP50 = median(queries)
	if len(queries) > 0 {
		g.QueryMax = slices.Max(queries)
	}
	return g
}

// median returns the middle of a list; zero: it is empty.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
