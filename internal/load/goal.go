package load

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Goal is a figure that a run should reach.
type Goal struct {
	Name string  `json:"name"` // of a figure
	Want float64 `json:"want"` // at most, or at least, as the figure says
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
	Why  string  `json:"why,omitempty"` // there is no figure
}

// figure is what a goal can be set for.
type figure struct {
	name, what, unit string
	least            bool // want is a minimum
	of               func(*Report) (float64, bool)
}

func figures() []figure {
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
	positive := func(f func(*Report) float64) func(*Report) (float64, bool) {
		return func(rep *Report) (float64, bool) { v := f(rep); return v, v > 0 }
	}
	return []figure{
		{"rate", "acknowledged", "results/s", true, positive(func(rep *Report) float64 { return rep.Rate })},
		{"beyond-p99", "p99 beyond the linger", "ms", false, positive(func(rep *Report) float64 { return rep.BeyondLinger.P99 })},
		{"machine", "both processes, of the machine", "%", false, positive(func(rep *Report) float64 {
			if rep.Server.Cores == 0 {
				return 0
			}
			return 100 * rep.MachineShare
		})},
		{"server-cpu", "server CPU per result", "µs", false, positive(func(rep *Report) float64 { return rep.Server.MicrosPerItem })},
		{"agent-memory", "resident on the server per agent", "kB", false, positive(func(rep *Report) float64 { return rep.SessionBytes / 1000 })},
		{"state-memory", "resident per event state", "B", false, positive(func(rep *Report) float64 { return rep.StateBytes })},
		{"back", "until all agents were back", "s", false, outage(func(o *Outage) float64 { return o.Seconds })},
		{"back-serving", "from serving until all agents were back", "s", false, outage(func(o *Outage) float64 {
			if o.Seconds < 0 || o.Serving < 0 {
				return -1
			}
			return max(0, o.Seconds-o.Serving)
		})},
		{"serving", "until the server was ready again", "s", false, outage(func(o *Outage) float64 { return o.Serving })},
		{"acknowledging", "until it acknowledged again", "s", false, outage(func(o *Outage) float64 { return o.Acked })},
		{"page-p99", "p99 of a page of 100, worst kind", "ms", false, pages(false, func(p *Paged) float64 { return p.P99 })},
		{"search-max", "longest answer to a free condition", "ms", false, pages(true, func(p *Paged) float64 { return p.Max })},
	}
}

// pages is the worst figure of those kinds of pages that are, or are not, searches.
func pages(searches bool, f func(*Paged) float64) func(*Report) (float64, bool) {
	return func(rep *Report) (worst float64, ok bool) {
		for i := range rep.Pages {
			p := &rep.Pages[i]
			switch {
			case p.Search != searches:
			case p.Failed != "":
				return 0, false
			default:
				worst, ok = max(worst, f(p)), true
			}
		}
		return worst, ok
	}
}

// ParseGoal reads NAME=LIMIT.
func ParseGoal(text string) (Goal, error) {
	name, limit, _ := strings.Cut(text, "=")
	want, err := strconv.ParseFloat(limit, 64)
	if _, ok := figureOf(name); ok && err == nil && want > 0 {
		return Goal{Name: name, Want: want}, nil
	}
	var names []string
	for _, f := range figures() {
		names = append(names, f.name+" ("+f.unit+")")
	}
	return Goal{}, model.Errorf(model.Invalid, "goal %q: want NAME=LIMIT", text).WithHint("names: %s", strings.Join(names, ", "))
}

func figureOf(name string) (figure, bool) {
	for _, f := range figures() {
		if f.name == name {
			return f, true
		}
	}
	return figure{}, false
}

// judge compares the run's figures with what they should be.
func (c Config) judge(rep *Report) (list []Goal) {
	for _, g := range c.Goals {
		f, ok := figureOf(g.Name)
		if ok {
			g.Got, ok = f.of(rep)
		}
		switch {
		case !ok:
			g.Why = "not measured in this run"
		case f.least:
			g.Met = g.Got >= g.Want
		default:
			g.Met = g.Got <= g.Want
		}
		list = append(list, g)
	}
	return list
}

// String is a sentence.
func (g Goal) String() string {
	f, _ := figureOf(g.Name)
	return fmt.Sprintf("%s: %s, asked %s", f.what, g.got(f), g.asked(f))
}

func (g Goal) got(f figure) string {
	if g.Why != "" {
		return g.Why
	}
	return fmt.Sprintf("%s %s", short(g.Got), f.unit)
}

func (g Goal) asked(f figure) string {
	bound := "at most"
	if f.least {
		bound = "at least"
	}
	return fmt.Sprintf("%s %s %s", bound, short(g.Want), f.unit)
}

// short shows what can be told of a figure.
func short(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
