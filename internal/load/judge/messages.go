package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
)

// tellFigure is the figure of the time until somebody is notified.
const tellFigure = "tell-p99"

// Messages judges the messages about checks with alerts in the scenario; timed is called with the intended time of each
// result and the time of its message.
func Messages(a *observe.Alerts, since func(at int64) float64, timed func(intended, came int64)) *report.Notifications {
	sum := &report.Notifications{Again: a.Again}
	for i := range a.States {
		switch state := &a.States[i]; {
		case !state.Told:
		case state.Unclear:
			sum.Unclear++
		default:
			judgeMessages(sum, state, since, timed)
		}
	}
	return sum
}

// judgeMessages judges the messages about a state, openings and closings apart, because deliveries may overtake each other.
func judgeMessages(sum *report.Notifications, state *observe.Alerted, since func(int64) float64, timed func(intended, came int64)) {
	for _, open := range []bool{false, true} {
		must, came := turnsOf(state.Must, open), turnsOf(state.Came, open)
		sum.Due += uint64(len(must))
		if state.Gone { // nobody knows what the machine brought about last: the answer did not reach it
			known := min(len(must), len(came))
			must, came = must[:known], came[:known]
		}
		match(must, came, func(m, c *observe.Turn) {
			switch {
			case m == nil:
				sum.Extra++
				sum.Example = cmp.Or(sum.Example, fmt.Sprintf("%s: a message at %.1f s that it %s, which no result brought about", state.Name, since(c.At), verb(open)))
			case c != nil && timed != nil:
				timed(m.At, c.At)
			case c == nil && !state.Gone:
				sum.Missing++
				sum.Example = cmp.Or(sum.Example, fmt.Sprintf("%s: no message that it %s at %.1f s", state.Name, verb(open), since(m.At)))
			}
		})
	}
}

// messages fills in the figures of messages. Alerts of checks that nobody watches are among them if no fault has them.
func (t *timetable) messages(a *observe.Alerts) {
	var took observe.Histogram
	parts, seconds := map[int]*observe.Histogram{}, map[int]*observe.Histogram{}
	record := func(by map[int]*observe.Histogram, n int, ns int64) {
		if by[n] == nil {
			by[n] = &observe.Histogram{}
		}
		by[n].Record(ns, 1)
	}
	n := Messages(a, t.since, func(intended, came int64) {
		i := slices.IndexFunc(t.Score, func(p plan.Part) bool { return intended >= p.From && intended < p.To })
		if i < 0 {
			return
		}
		record(parts, i, came-intended)
		record(seconds, int(came/1e9), came-intended)
		if t.Score[i].Measured {
			took.Record(came-intended, 1)
		}
	})
	if a.Strangers > 0 && !slices.ContainsFunc(a.Strikes, func(s observe.Strike) bool { return failing(a, &s) }) {
		n.Extra += uint64(a.Strangers)
		n.Example = cmp.Or(n.Example, a.Stranger+": nobody asked for alerts of it")
	}
	if !t.sc.HasAlerts() && n.Extra == 0 {
		return
	}
	n.Timed, n.Latency, n.Curve = uint64(took.Count()), took.Latency(), report.CurveOf(took.Buckets())
	t.rep.Notifications, t.told = n, parts
	for second, h := range seconds {
		if second < len(t.Samples) {
			s := &t.rep.Samples[len(t.Ramp)+second]
			waits := map[string]float64{tellFigure: h.Latency().P99}
			maps.Copy(waits, s.Waits)
			s.Waits = waits
		}
	}
}
