package judge

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// turns returns turns at seconds: a positive one opens a problem, a negative one closes it.
func turns(seconds ...float64) (list []observe.Turn) {
	for _, s := range seconds {
		list = append(list, observe.Turn{At: int64(max(s, -s) * 1e9), Open: s > 0})
	}
	return list
}

// TestMessages expects one message for each result that changes a state, in any order of arrival, and names missing and
// unexpected ones.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name       string
		must, came []observe.Turn
		change     func(a *observe.Alerts)
		want       report.Notifications
	}{
		{"nothing", nil, nil, nil, report.Notifications{}},
		{"told of both", turns(120, -122), turns(122, -123), nil, report.Notifications{Due: 2, Timed: 2}},
		{"the message is here at once", turns(120), turns(119.5), nil, report.Notifications{Due: 1, Timed: 1}},
		{"messages overtake each other", turns(120, -120), turns(-121, 121), nil, report.Notifications{Due: 2, Timed: 2}},
		{"of the warm-up", turns(1), turns(61), nil, report.Notifications{Due: 1}},
		{"one is missing", turns(120, -120), turns(120), nil, report.Notifications{Due: 2, Timed: 1, Missing: 1, Example: "web-00000/http: no message that it is well again at 60.0 s"}},
		{"one is too many", turns(120), turns(120, 120), nil, report.Notifications{Due: 1, Timed: 1, Extra: 1, Example: "web-00000/http: a message at 60.0 s that it fails, which no result brought about"}},
		{"one is made up, and the next one does not come", turns(180), turns(120), nil, report.Notifications{Due: 1, Missing: 1, Extra: 1, Example: "web-00000/http: a message at 60.0 s that it fails, which no result brought about"}},
		{"a state had a problem before", turns(120), turns(-121), func(a *observe.Alerts) { a.States[0].Unclear = true }, report.Notifications{Unclear: 1}},
		{"a machine that a fault left dead", turns(120), turns(-121), func(a *observe.Alerts) { a.States[0].Gone = true }, report.Notifications{Due: 1}},
		{"one came again", nil, nil, func(a *observe.Alerts) { a.Again = 2 }, report.Notifications{Again: 2}},
		{"of a check that nobody watches", nil, nil, func(a *observe.Alerts) { a.Strangers, a.Stranger = 1, "load/web-00000/disk" }, report.Notifications{Extra: 1, Example: "load/web-00000/disk: nobody asked for alerts of it"}},
		{"a fault has those", nil, nil, func(a *observe.Alerts) {
			a.Strangers, a.Strikes = 1, []observe.Strike{{States: []int{0}}}
		}, report.Notifications{}},
	} {
		a := &observe.Alerts{States: []observe.Alerted{{Name: "web-00000/http", Told: true, Must: c.must, Came: c.came}, {Name: "web-00000/other", Fails: true, Came: turns(1)}}}
		if c.change != nil {
			c.change(a)
		}
		x := newTimetable(&observe.Checks{Score: []plan.Part{{To: 60e9}, {From: 60e9, To: 3600e9, Measured: true}}, Samples: make([]report.Sample, 130),
			Start: &observe.Checked{Report: &report.Report{Scenario: &scenario.Scenario{Agents: []scenario.Class{{Checks: []scenario.Check{{Alert: scenario.ByHandler}}}}, Phases: []scenario.Phase{{Steady: 3600e9}}}}}}, &report.Report{Samples: make([]report.Sample, 130)})
		x.messages(a)
		got := *x.rep.Notifications
		got.Latency, got.Curve = report.Latency{}, nil
		if got.Due != c.want.Due || got.Timed != c.want.Timed || got.Missing != c.want.Missing || got.Extra != c.want.Extra || got.Unclear != c.want.Unclear || got.Again != c.want.Again || got.Example != c.want.Example {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if rep := (&report.Report{Course: report.Course{Notifications: &got}, Valid: true, Balance: &report.Balance{}}); rep.Lost() != (c.want.Missing+c.want.Extra > 0) || rep.OK() == rep.Lost() {
			t.Errorf("%s: lost %t, well %t", c.name, rep.Lost(), rep.OK())
		}
		if c.name != "told of both" {
			continue
		}
		if l, h := x.rep.Notifications.Latency, x.told[1]; l.Max < 1990 || l.Max > 2010 || l.P50 > 1010 || h.Count() != 2 || x.rep.Samples[122].Waits[tellFigure] < 1990 || x.rep.Samples[121].Waits != nil {
			t.Errorf("timed: %+v, %d of the phase, %v", l, h.Count(), x.rep.Samples[122].Waits)
		}
	}
}

// TestMessagesThatNobodyWants judges a scenario without wanted messages, and expects that only alerts of unwatched
// checks count.
func TestMessagesThatNobodyWants(t *testing.T) {
	for n := range 2 {
		x := newTimetable(&observe.Checks{Start: &observe.Checked{Report: &report.Report{}}}, &report.Report{Balance: &report.Balance{}})
		x.messages(&observe.Alerts{Strangers: n, Stranger: "load/web/disk"})
		if told := x.rep.Notifications; (told != nil) != (n > 0) || n > 0 && (!x.rep.Lost() || !strings.HasPrefix(told.Example, "load/web/disk: ")) {
			t.Errorf("%d: %+v", n, told)
		}
	}
}
