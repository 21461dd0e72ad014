package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Goal is a figure that a run should reach.
type Goal struct {
	Name string  `json:"name"` // of a figure
	Want float64 `json:"want"` // at most, or at least, as the figure says
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
	Why  string  `json:"why,omitempty"` // the figure was not measured; the goal may be met all the same

	Phase string `json:"phase,omitempty"` // the phase that it is for; empty: the run
}

// Figures returns all figures that the run measured, in their units, by their names (scenario.Figures). Figures of
// acknowledgements are left out where the target acknowledges nothing.
func (rep *Report) Figures() map[string]float64 {
	inside, calls, disk := cmp.Or(rep.Inside, &Inside{}), cmp.Or(rep.Calls, &Calls{}), cmp.Or(rep.Disk, &Disk{})
	turns, told, streamed := cmp.Or(rep.Turns, &Turned{}), cmp.Or(rep.Notifications, &Notifications{}), cmp.Or(rep.Streamed, &Streamed{})
	all := map[string]float64{ // those that were not measured where they are 0
		"p50": rep.Latency.P50, "p99": rep.Latency.P99, "p999": rep.Latency.P999, "max": rep.Latency.Max,
		"beyond-p50": rep.BeyondLinger.P50, "beyond-p99": rep.BeyondLinger.P99,
		"server-cpu": rep.Server.MicrosPerItem, "loader-cpu": rep.Loader.MicrosPerItem,
		"cpu-ratio":     ratio(100*rep.Server.Cores, rep.Loader.Cores),
		"server-memory": float64(rep.Server.RSS) / 1e6, "agent-memory": rep.SessionBytes / 1000, "loader-memory": rep.AgentBytes / 1000,
		"state-memory": rep.StateBytes, "connect": rep.ConnectSeconds,
		"allocs": 1000 * inside.Allocs, "alloc-bytes": inside.AllocBytes, "wire-bytes": inside.WireBytes, "journal-bytes": inside.JournalBytes,
		"reads": ratio(1000*calls.Reads, rep.Rate), "writes": ratio(1000*calls.Writes, rep.Rate), "disk-bytes": disk.PerResult,
		"tell-p99": told.Latency.P99, "stream-p99": streamed.Latency.P99,
	}
	greatest := func(name string, v float64) { all[name] = max(all[name], v) }
	for i := range rep.Faults {
		greatest("detect", rep.Faults[i].Detected.Max/1000)
		greatest("clear", rep.Faults[i].Cleared.Max/1000)
	}
	for _, p := range rep.Phases {
		if p.Kind == KindStep && len(p.Missed) == 0 {
			greatest("saturation", p.Acknowledged)
		}
	}
	for i := range rep.Changes {
		greatest("holds-p99", rep.Changes[i].Holds.P99)
	}
	for _, w := range rep.Operators {
		greatest(w.What+"-p99", w.Latency.P99)
	}
	maps.DeleteFunc(all, func(_ string, v float64) bool { return !(v > 0) })
	// set sets a figure that may be 0.
	set := func(name string, v float64, measured bool) {
		if measured {
			all[name] = v
		}
	}
	set("rate", rep.Rate, rep.Rate > 0 || rep.Results > 0 || len(rep.Counting()) > 0)
	if rep.InTime != nil {
		all["held"] = 100 * *rep.InTime
	}
	set("machine", 100*rep.machineShare(), rep.Server.Cores > 0)
	set("lock-share", 100*rep.Server.LockShare, rep.Server.LockShare > 0 || rep.Inside != nil)
	set("gc-cpu", ratio(1e6*inside.GC, rep.Rate), rep.Inside != nil && rep.Rate > 0)
	set("fsyncs", ratio(1000*calls.Syncs, rep.Rate), rep.Calls != nil && rep.Rate > 0 && (calls.Syncs > 0 || rep.Inside != nil))
	slowest, settled := rep.settling()
	set("settle", slowest, settled)
	// worst sets the greatest figure of all outages, unless one of them did not come to it (-1).
	worst := func(name string, of func(*Outage) float64) {
		most := 0.0
		for i := range rep.Outages {
			v := of(&rep.Outages[i])
			if v < 0 {
				return
			}
			most = max(most, v)
		}
		set(name, most, len(rep.Outages) > 0)
	}
	worst("back", func(o *Outage) float64 { return o.Seconds })
	worst("serving", func(o *Outage) float64 { return o.Serving })
	worst("acknowledging", func(o *Outage) float64 { return o.Acked })
	worst("back-serving", func(o *Outage) float64 {
		if o.Seconds < 0 || o.Serving < 0 {
			return -1
		}
		return max(0, o.Seconds-o.Serving)
	})
	set("takeover-p50", turns.Took.P50, turns.Taken > 0)
	set("takeover-p99", turns.Took.P99, turns.Taken > 0)
	set("takeover-max", turns.Took.Max, turns.Taken > 0)
	for i := range rep.Samples {
		if s := &rep.Samples[i]; s.Second > 0 && s.Behind != nil {
			all[HistoryBehind] = max(all[HistoryBehind], *s.Behind)
		}
	}
	if rep.Asked() {
		for _, name := range []string{"held", "saturation", "p50", "p99", "p999", "max", "beyond-p50", "beyond-p99", "settle"} {
			delete(all, name)
		}
	}
	return all
}

// settling returns the time of the slowest phase that had to settle. It returns false if one of them did not settle, or
// was not judged.
func (rep *Report) settling() (slowest float64, ok bool) {
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

// ratio returns part/whole, or 0 if whole is 0.
func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// ParseGoal parses NAME=LIMIT of --goal. A limit without a unit is in the figure's own.
func ParseGoal(text string) (Goal, error) {
	name, limit, _ := strings.Cut(text, "=")
	f, ok := scenario.FigureOf(name)
	if !ok {
		hint := "want NAME=LIMIT, such as --goal p99=800ms; muster load run --goal help lists the names"
		var names []string
		for _, f := range scenario.Figures() {
			names = append(names, f.Name)
		}
		if near := model.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s? %s", near, hint)
		}
		return Goal{}, model.Errorf(model.Invalid, "--goal %q: there is no figure %q", text, name).WithHint("%s", hint)
	}
	want, err := strconv.ParseFloat(limit, 64)
	if err != nil {
		want, err = scenario.Limit(limit).In(f.Unit)
	}
	if limit == "" {
		err = errors.New("the limit is missing")
	} else if err == nil && !(want > 0 && want <= math.MaxFloat64) {
		err = errors.New("want a limit above 0")
	}
	if err != nil {
		return Goal{}, model.Errorf(model.Invalid, "--goal %q: %v", text, err).WithHint("%s is in %s: such as --goal %s=60%s", name, f.Unit, name, strings.NewReplacer("µ", "u", "results/s", "", scenario.Per1000, "").Replace(f.Unit))
	}
	return Goal{Name: name, Want: want}, nil
}

// Goals returns the goals of objectives, by name. Their limits were checked.
func Goals(asked map[string]scenario.Limit, phase string) (list []Goal) {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		f, _ := scenario.FigureOf(name)
		want, err := asked[name].In(f.Unit)
		if err != nil {
			panic("BUG: an objective that was not checked: " + err.Error())
		}
		list = append(list, Goal{Name: name, Want: want, Phase: phase})
	}
	return list
}

// Judged returns goals with their figures among some.
func Judged(goals []Goal, figures map[string]float64) (list []Goal) {
	for _, g := range goals {
		f, _ := scenario.FigureOf(g.Name)
		got, ok := figures[g.Name]
		g.Got = got
		switch {
		case !ok:
			g.Why = "not measured in this run"
		case f.Least:
			g.Met = g.Got >= g.Want
		default:
			g.Met = g.Got <= g.Want
		}
		list = append(list, g)
	}
	return list
}

// Judged returns goals with their figures in the report.
func (rep *Report) Judged(goals []Goal) []Goal {
	list := Judged(goals, rep.Figures())
	for i := range list {
		if g := &list[i]; g.Name == "agent-memory" && g.Why != "" && rep.ConnectCPU > 0 { // the server shrank while its agents came
			g.Met, g.Why = true, "not known: the server gave back more memory than the agents took"
		}
	}
	return list
}

// String describes the goal in a sentence.
func (g Goal) String() string {
	what, asked, got := g.Words()
	return fmt.Sprintf("%s: %s, asked %s", what, got, asked)
}

// Words returns the figure's meaning, the limit and the measured value, with units.
func (g Goal) Words() (what, asked, got string) {
	f, ok := scenario.FigureOf(g.Name)
	if what = f.What; !ok {
		what = g.Name
	}
	if g.Phase != "" {
		what = g.Phase + ": " + what
	}
	bound := "at most "
	if f.Least {
		bound = "at least "
	}
	if got = g.Why; got == "" {
		got = number.In(g.Got, f.Unit)
	}
	return what, bound + number.Bare(number.In(g.Want, f.Unit)), got
}
