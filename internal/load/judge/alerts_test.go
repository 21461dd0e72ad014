package judge

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// sec converts seconds to ns.
func sec(n float64) int64 { return int64(n * 1e9) }

// opens returns the opening of a problem at a second.
func opens(at float64) observe.Turn { return observe.Turn{At: sec(at), Open: true} }

// closes returns the closing of a problem at a second.
func closes(at float64) observe.Turn { return observe.Turn{At: sec(at)} }

// TestAlertsOfFailingChecks lets two of three states fail from second 10 to 40, and judges alerts that come, are
// missing or are too many.
func TestAlertsOfFailingChecks(t *testing.T) {
	came := func(list ...observe.Turn) []observe.Turn { return list }
	for name, c := range map[string]struct {
		came           [3][]observe.Turn
		unclear        bool
		missing, extra int
		example        string
	}{
		"all told":                     {[3][]observe.Turn{came(opens(12), closes(42)), came(opens(12), closes(42)), nil}, false, 0, 0, ""},
		"one not told":                 {[3][]observe.Turn{came(opens(12), closes(42)), nil, nil}, false, 2, 0, ""},
		"one recovery not told":        {[3][]observe.Turn{came(opens(12), closes(42)), came(opens(12)), nil}, false, 1, 0, "b: no alert that it is well again"},
		"one told twice":               {[3][]observe.Turn{came(opens(12), closes(42)), came(opens(12), opens(13), closes(42)), nil}, false, 0, 1, "b: an alert that it fails, 2 of them and 1 had to come"},
		"one told before it fails":     {[3][]observe.Turn{came(opens(5), closes(42)), came(opens(12), closes(42)), nil}, false, 1, 1, ""},
		"told of a state that is well": {[3][]observe.Turn{came(opens(12), closes(42)), came(opens(12), closes(42)), came(opens(12))}, false, 0, 1, "c: an alert that it fails, 1 of them and 0 had to come"},
		"a deadline judged it":         {[3][]observe.Turn{came(opens(12), closes(42)), came(opens(7), opens(12), closes(42)), nil}, true, 0, 0, ""},
	} {
		a := &observe.Alerts{End: sec(100), Strikes: []observe.Strike{{At: sec(10), Until: sec(40), States: []int{0, 1}}}}
		for i, name := range []string{"a", "b", "c"} {
			x := observe.Alerted{Name: name, Fails: true, Came: c.came[i], Unclear: c.unclear && i == 1}
			if i < 2 {
				x.Must = came(opens(12), closes(41))
			}
			a.States = append(a.States, x)
		}
		rows := make([]report.Struck, 1)
		missing := Alerts(a, rows)
		if r := rows[0]; r.Missing != c.missing || missing != c.missing || r.Extra != c.extra || r.Alerts != 4 && !c.unclear || c.example != "" && r.Example != c.example {
			t.Errorf("%s: %+v", name, r)
		}
		if r := rows[0]; c.missing == 0 && (r.Detected.Max < 1990 || r.Detected.Max > 2010 || r.Cleared.Max < 1990 || r.Cleared.Max > 2010) {
			t.Errorf("%s: detected %+v, cleared %+v", name, r.Detected, r.Cleared)
		}
	}
}

// TestAlertsOfAStateThatTurnsByItself judges a state that also fails without the fault, and expects that the fault
// accounts for the first failure during it and the first recovery after it.
func TestAlertsOfAStateThatTurnsByItself(t *testing.T) {
	a := &observe.Alerts{End: sec(300), States: []observe.Alerted{{Name: "a"}}, Strikes: []observe.Strike{{At: sec(61), Until: sec(121), States: []int{0}}}}
	for i := range 20 {
		for _, turn := range []observe.Turn{opens(float64(10 * i)), closes(float64(10*i + 5))} {
			a.States[0].Must, a.States[0].Came = append(a.States[0].Must, turn), append(a.States[0].Came, turn)
		}
	}
	rows := make([]report.Struck, 1)
	if Alerts(a, rows); rows[0].Alerts != 2 || rows[0].Missing+rows[0].Extra != 0 || rows[0].Detected.Max < 8990 || rows[0].Cleared.Max > 4010 {
		t.Errorf("%+v", rows[0])
	}
}

// TestAlertsOfTwoFaults judges two faults of one state, and expects that each alert belongs to the latest fault.
func TestAlertsOfTwoFaults(t *testing.T) {
	turns := []observe.Turn{opens(11), closes(21), opens(51), closes(61)}
	a := &observe.Alerts{End: sec(100), States: []observe.Alerted{{Name: "a", Must: turns, Came: turns[:3]}}, Strangers: 1, Stranger: "load/x/y",
		Strikes: []observe.Strike{{At: sec(10), Until: sec(20), States: []int{0}}, {Fault: 1, At: sec(50), Until: sec(60), States: []int{0}}}}
	rows := make([]report.Struck, 2)
	missing := Alerts(a, rows)
	if missing != 1 || rows[0].Alerts != 2 || rows[0].Missing != 0 || rows[0].Extra != 1 || rows[0].Example != "load/x/y: nobody asked for alerts of it" || rows[1].Alerts != 2 || rows[1].Missing != 1 {
		t.Errorf("%+v", rows)
	}
}

// TestAlertsOfSilentMachines stops a machine with a timeout of 15 s at second 10, and judges its keepalive alerts.
func TestAlertsOfSilentMachines(t *testing.T) {
	for name, c := range map[string]struct {
		until                  float64
		came                   []observe.Turn
		unsure, offline        bool
		alerts, missing, extra int
		detected               float64
	}{
		"told once, and of its return":                  {70, []observe.Turn{opens(26), closes(71)}, false, false, 2, 0, 0, 16_000},
		"nobody told":                                   {70, nil, false, false, 1, 1, 0, 0},
		"nobody told, and the server was away itself":   {70, nil, true, false, 0, 0, 0, 0},
		"nobody told until the end":                     {0, nil, false, false, 1, 1, 0, 0},
		"too short to be told":                          {20, nil, false, false, 0, 0, 0, 0},
		"told twice":                                    {70, []observe.Turn{opens(26), closes(27), opens(28), closes(71)}, false, false, 2, 0, 1, 16_000},
		"its return not told":                           {70, []observe.Turn{opens(26)}, false, false, 2, 1, 0, 16_000},
		"offline before, and told before it was struck": {70, []observe.Turn{opens(5), closes(71)}, false, true, 2, 0, 0, 0},
		"offline before, and told after":                {70, []observe.Turn{opens(20), closes(71)}, false, true, 2, 0, 0, 0},
		"offline before, and never told":                {70, []observe.Turn{closes(71)}, false, true, 1, 1, 0, 0},
	} {
		a := &observe.Alerts{End: sec(100), States: []observe.Alerted{{Name: "well", Machine: true}, {Name: "web", Machine: true, Came: c.came}},
			Strikes: []observe.Strike{{At: sec(10), Until: sec(c.until), States: []int{1}, Timeout: sec(15), Unsure: c.unsure}}}
		if c.offline {
			a.Strikes[0].Offline = []int{1}
		}
		rows := make([]report.Struck, 1)
		missing := Alerts(a, rows)
		if r := rows[0]; r.Alerts != c.alerts || r.Missing != c.missing || missing != c.missing || r.Extra != c.extra || r.Detected.Max < c.detected-10 || r.Detected.Max > c.detected+10 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

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
