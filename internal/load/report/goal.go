package report

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Goal is a figure that a run should reach.
type Goal struct {
	Name string  `json:"name"` // of a figure
	Want float64 `json:"want"` // at most, or at least, as the figure says
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
	Why  string  `json:"why,omitempty"` // there is no figure; the goal may be met all the same

	Phase string `json:"phase,omitempty"` // of which alone it is asked; empty: of the run
}

// agentMemory is a figure of which nothing is known where the server shrank while its agents came; that
// it is no more than was asked is known then.
const agentMemory = "agent-memory"

// figure is what a goal can be set for, and where a report has it.
type figure struct {
	scenario.Figure
	of func(*Report) (float64, bool)
}

// found says where a report has each figure, by its name.
func found() map[string]func(*Report) (float64, bool) {
	outage := func(f func(*Outage) float64) func(*Report) (float64, bool) {
		return func(rep *Report) (worst float64, ok bool) {
			for i := range rep.Outages {
				v := f(&rep.Outages[i])
				if v < 0 {
					return 0, false
				}
				worst, ok = max(worst, v), true
			}
			return worst, ok
		}
	}
	// What can be nothing, and be measured, says itself when it was; all else was not where it is nothing.
	known := func(f func(*Report) float64, measured func(*Report) bool) func(*Report) (float64, bool) {
		return func(rep *Report) (float64, bool) { v := f(rep); return v, v > 0 || measured(rep) }
	}
	positive := func(f func(*Report) float64) func(*Report) (float64, bool) {
		return known(f, func(*Report) bool { return false })
	}
	inside := func(f func(*Report, *Inside) float64) func(*Report) (float64, bool) {
		return positive(func(rep *Report) float64 {
			if rep.Inside == nil {
				return 0
			}
			return f(rep, rep.Inside)
		})
	}
	calls := func(f func(*Calls) float64) func(*Report) (float64, bool) {
		return positive(func(rep *Report) float64 {
			if rep.Calls == nil {
				return 0
			}
			return ratio(1000*f(rep.Calls), rep.Rate)
		})
	}
	operators := func(what string) func(*Report) (float64, bool) {
		return positive(func(rep *Report) float64 {
			return worst(rep.Operators, func(w *Worked) float64 {
				if w.What != what {
					return 0
				}
				return w.Latency.P99
			})
		})
	}
	return map[string]func(*Report) (float64, bool){
		"rate": known(func(rep *Report) float64 { return rep.Rate }, (*Report).counted),
		"saturation": positive(func(rep *Report) float64 {
			return worst(rep.Phases, func(p *Played) float64 {
				if p.Kind != "step" || len(p.Missed) > 0 {
					return 0
				}
				return p.Acknowledged
			})
		}),
		"held":       known((*Report).held, (*Report).counted),
		"p50":        positive(func(rep *Report) float64 { return rep.Latency.P50 }),
		"p99":        positive(func(rep *Report) float64 { return rep.Latency.P99 }),
		"p999":       positive(func(rep *Report) float64 { return rep.Latency.P999 }),
		"max":        positive(func(rep *Report) float64 { return rep.Latency.Max }),
		"beyond-p50": positive(func(rep *Report) float64 { return rep.BeyondLinger.P50 }),
		"beyond-p99": positive(func(rep *Report) float64 { return rep.BeyondLinger.P99 }),
		"machine": positive(func(rep *Report) float64 {
			if rep.Server.Cores == 0 {
				return 0
			}
			return 100 * rep.MachineShare
		}),
		"server-cpu": positive(func(rep *Report) float64 { return rep.Server.MicrosPerItem }),
		"loader-cpu": positive(func(rep *Report) float64 { return rep.Loader.MicrosPerItem }),
		"cpu-ratio":  positive(func(rep *Report) float64 { return ratio(100*rep.Server.Cores, rep.Loader.Cores) }),
		"gc-cpu": known(func(rep *Report) float64 {
			if rep.Inside == nil {
				return 0
			}
			return ratio(1e6*rep.Inside.GC, rep.Rate)
		}, func(rep *Report) bool { return rep.Inside != nil && rep.Rate > 0 }),
		"lock-share":    known(func(rep *Report) float64 { return 100 * rep.Server.LockShare }, func(rep *Report) bool { return rep.Unsaved.Looked }),
		"allocs":        inside(func(_ *Report, in *Inside) float64 { return 1000 * in.Allocs }),
		"alloc-bytes":   inside(func(_ *Report, in *Inside) float64 { return in.AllocBytes }),
		"wire-bytes":    inside(func(_ *Report, in *Inside) float64 { return in.WireBytes }),
		"journal-bytes": inside(func(_ *Report, in *Inside) float64 { return in.JournalBytes }),
		"disk-bytes": positive(func(rep *Report) float64 {
			if rep.Disk == nil {
				return 0
			}
			return rep.Disk.PerResult
		}),
		"fsyncs": known(func(rep *Report) float64 {
			if rep.Calls == nil {
				return 0
			}
			return ratio(1000*rep.Calls.Syncs, rep.Rate)
		}, func(rep *Report) bool { return rep.Calls != nil && rep.Rate > 0 && rep.Inside != nil }),
		"reads":         calls(func(c *Calls) float64 { return c.Reads }),
		"writes":        calls(func(c *Calls) float64 { return c.Writes }),
		"server-memory": positive(func(rep *Report) float64 { return float64(rep.Server.RSS) / 1e6 }),
		agentMemory:     positive(func(rep *Report) float64 { return rep.SessionBytes / 1000 }),
		"loader-memory": positive(func(rep *Report) float64 { return rep.AgentBytes / 1000 }),
		"state-memory":  positive(func(rep *Report) float64 { return rep.StateBytes }),
		"connect":       positive(func(rep *Report) float64 { return rep.ConnectSeconds }),
		"settle":        settling,
		"detect": positive(func(rep *Report) float64 {
			return worst(rep.Faults, func(f *Struck) float64 { return f.Detected.Max }) / 1000
		}),
		"clear": positive(func(rep *Report) float64 {
			return worst(rep.Faults, func(f *Struck) float64 { return f.Cleared.Max }) / 1000
		}),
		"back": outage(func(o *Outage) float64 { return o.Seconds }),
		"back-serving": outage(func(o *Outage) float64 {
			if o.Seconds < 0 || o.Serving < 0 {
				return -1
			}
			return max(0, o.Seconds-o.Serving)
		}),
		"serving":       outage(func(o *Outage) float64 { return o.Serving }),
		"acknowledging": outage(func(o *Outage) float64 { return o.Acked }),
		"takeover-p50":  takeover(func(l Latency) float64 { return l.P50 }),
		"takeover-p99":  takeover(func(l Latency) float64 { return l.P99 }),
		"takeover-max":  takeover(func(l Latency) float64 { return l.Max }),
		"holds-p99":     positive(func(rep *Report) float64 { return worst(rep.Changes, func(h *Held) float64 { return h.Holds.P99 }) }),
		"list-p99":      operators("list"),
		"apply-p99":     operators("apply"),
		"silence-p99":   operators("silence"),
		"watch-p99":     operators("watch"),
		"run-p99":       operators("run"),
		"fact-p99":      operators("fact"),
		"tell-p99": positive(func(rep *Report) float64 {
			if rep.Notifications == nil {
				return 0
			}
			return rep.Notifications.Latency.P99
		}),
		"stream-p99": positive(func(rep *Report) float64 {
			if rep.Streamed == nil {
				return 0
			}
			return rep.Streamed.Latency.P99
		}),
		HistoryBehind: func(rep *Report) (worst float64, ok bool) {
			for i := range rep.Samples {
				if s := &rep.Samples[i]; s.Second > 0 && s.Behind != nil {
					worst, ok = max(worst, *s.Behind), true
				}
			}
			return worst, ok
		},
	}
}

// counted says whether anything was offered that counts: then a rate of nothing is one.
func (rep *Report) counted() bool { return rep.Results > 0 || len(rep.Counting()) > 0 }

// takeover is a figure of the turns that another agent took over, where there were any.
func takeover(of func(Latency) float64) func(*Report) (float64, bool) {
	return func(rep *Report) (float64, bool) {
		if rep.Turns == nil || rep.Turns.Taken == 0 {
			return 0, false
		}
		return of(rep.Turns.Took), true
	}
}

// settling is how long the slowest phase that had to settle took, from one second on. There
// is no figure where one of them never did, or was not judged: that says so itself.
func settling(rep *Report) (slowest float64, ok bool) {
	asked := 0
	if rep.Scenario != nil {
		for i := range rep.Scenario.Phases {
			if rep.Scenario.Phases[i].Settle > 0 {
				asked++
			}
		}
	}
	for i := range rep.Phases {
		if s := rep.Phases[i].Settled; s > 0 {
			slowest = max(slowest, s)
			asked--
		}
	}
	return slowest, slowest > 0 && asked == 0
}

// worst is the largest of what f says of each.
func worst[T any](list []T, f func(*T) float64) (most float64) {
	for i := range list {
		most = max(most, f(&list[i]))
	}
	return most
}

// held is how much of what was offered was acknowledged in time, in %. Older reports know only
// how much was in the end.
func (rep *Report) held() float64 {
	if rep.InTime != nil {
		return 100 * *rep.InTime
	}
	offered, acked := 0.0, 0.0
	for _, p := range rep.Counting() {
		offered += p.Offered * (p.To - p.From)
		acked += p.Acknowledged * (p.To - p.From)
	}
	if offered == 0 {
		offered, acked = rep.Plan.Offered, rep.Rate
	}
	return ratio(100*acked, offered)
}

// ratio is 0 where there is nothing to divide by.
func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// Figures are all that the run shows, in their units, by their names (see
// scenario.Figures). What was not measured is not there, nor what means something else of
// a system that is not Muster.
func (rep *Report) Figures() map[string]float64 {
	all := map[string]float64{}
	for name, of := range found() {
		if rep.Asked() && ofAcknowledgements(name) {
			continue
		}
		if v, ok := of(rep); ok {
			all[name] = v
		}
	}
	return all
}

// ParseGoal reads NAME=LIMIT, as --goal has it; a limit without a unit is in the figure's own.
func ParseGoal(text string) (Goal, error) {
	name, limit, _ := strings.Cut(text, "=")
	f, ok := figureOf(name)
	if !ok {
		hint := "want NAME=LIMIT, such as --goal p99=800ms; muster load run --goal help lists the names"
		if near := model.Nearest(name, goalNames()); near != "" {
			hint = fmt.Sprintf("did you mean %s? %s", near, hint)
		}
		return Goal{}, model.Errorf(model.Invalid, "--goal %q: there is no figure %q", text, name).WithHint("%s", hint)
	}
	example := fmt.Sprintf("%s is in %s: such as --goal %s=%s", name, f.Unit, name, example(f.Unit))
	if limit == "" {
		return Goal{}, model.Errorf(model.Invalid, "--goal %q: the limit is missing", text).WithHint("%s", example)
	}
	want, err := strconv.ParseFloat(limit, 64)
	if err != nil {
		want, err = scenario.Limit(limit).In(f.Unit)
	}
	if err == nil && !(want > 0 && want <= math.MaxFloat64) {
		err = errors.New("want a limit above 0")
	}
	if err != nil {
		return Goal{}, model.Errorf(model.Invalid, "--goal %q: %v", text, err).WithHint("%s", example)
	}
	return Goal{Name: name, Want: want}, nil
}

// example is a limit in a unit, as people type it.
func example(unit string) string {
	switch unit {
	case "ms", "s", "%", "B", "kB", "MB":
		return "60" + unit
	case "µs":
		return "60us"
	}
	return "60"
}

// goalNames are all figures.
func goalNames() (names []string) {
	for _, f := range scenario.Figures() {
		names = append(names, f.Name)
	}
	return names
}

func figureOf(name string) (figure, bool) {
	f, ok := scenario.FigureOf(name)
	return figure{f, found()[name]}, ok
}

// Judged is the goal with what a report shows.
func (g Goal) Judged(rep *Report) Goal {
	f, ok := figureOf(g.Name)
	if ok {
		g.Got, ok = f.of(rep)
	}
	switch {
	case !ok && g.Name == agentMemory && rep.ConnectCPU > 0: // it was looked at
		g.Met, g.Why = true, "not known: the server gave back more memory than the agents took"
	case !ok:
		g.Why = "not measured in this run"
	case f.Least:
		g.Met = g.Got >= g.Want
	default:
		g.Met = g.Got <= g.Want
	}
	return g
}

// String is a sentence.
func (g Goal) String() string {
	what, asked, got := g.Words()
	return fmt.Sprintf("%s: %s, asked %s", what, got, asked)
}

func (g Goal) got(f figure) string {
	if g.Why != "" {
		return g.Why
	}
	return fmt.Sprintf("%s %s", short(g.Got), f.Unit)
}

func (g Goal) asked(f figure) string {
	bound := "at most"
	if f.Least {
		bound = "at least"
	}
	return fmt.Sprintf("%s %s %s", bound, short(g.Want), f.Unit)
}

// short shows what can be told of a figure.
func short(v float64) string {
	if v >= 100 {
		return scenario.Grouped(int(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// Words are what a goal is of, what was asked and what came, each with its unit.
func (g Goal) Words() (what, asked, got string) {
	f, ok := figureOf(g.Name)
	if !ok {
		f.What = g.Name
	}
	if g.Phase != "" {
		f.What = g.Phase + ": " + f.What
	}
	return f.What, g.asked(f), g.got(f)
}

// Least says whether the goal's limit is a minimum.
func (g Goal) Least() bool {
	f, _ := figureOf(g.Name)
	return f.Least
}
