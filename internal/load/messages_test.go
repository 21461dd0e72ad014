package load

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// telled is alarmed, whose scenario wants the watched check told.
func telled(t *testing.T) *alarmed {
	x := newAlarmed(t)
	r := x.al.run
	r.cfg.Scenario = &scenario.Scenario{Agents: []scenario.Class{{Name: "web", Count: 3, Checks: []scenario.Check{{Name: "http", Alert: scenario.ByRoute}}}}}
	r.follow(score{{from: 0, to: int64(time.Minute), rate: 1}, {from: int64(time.Minute), to: int64(time.Hour), rate: 1, measured: true}})
	web := &class{spec: &r.cfg.Scenario.Agents[0], checks: []playing{{full: watchedCheck, tells: true}}}
	r.classes, r.agents, x.al.checks = []*class{web}, x.agents, map[string]*witness{}
	for _, a := range x.agents {
		a.class, a.ledger.watched = web, nil
	}
	x.al.tellAbout()
	return x
}

// Each result that turns a state brings about one message, whichever is heard of first; what
// lacks one, or has none, is named.
func TestMessagesAreHeldAgainstResults(t *testing.T) {
	ok, bad := model.OK, model.Critical
	for _, c := range []struct {
		name  string
		story func(x *alarmed)
		want  report.Notifications // without its latency
	}{
		{"told of both", func(x *alarmed) {
			x.result(0, ok)
			x.result(0, bad)
			x.result(0, model.Warning)
			time.Sleep(2 * time.Second)
			x.post(0, "opened", false)
			x.result(0, ok)
			time.Sleep(time.Second)
			x.post(0, "closed", false)
		}, report.Notifications{Due: 2, Timed: 2}},
		{"the message is here before the acknowledgement", func(x *alarmed) {
			x.post(1, "opened", false)
			x.result(1, bad)
		}, report.Notifications{Due: 1, Timed: 1}},
		{"messages overtake each other", func(x *alarmed) {
			x.result(0, bad)
			x.result(0, ok)
			x.post(0, "closed", false)
			x.post(0, "opened", false)
		}, report.Notifications{Due: 2, Timed: 2}},
		{"one comes once more", func(x *alarmed) {
			x.result(0, bad)
			x.post(0, "opened", false)
			x.post(0, "opened", true)
		}, report.Notifications{Due: 1, Timed: 1, Again: 1}},
		{"one is missing", func(x *alarmed) {
			x.result(2, bad)
			x.result(2, ok)
			x.post(2, "opened", false)
		}, report.Notifications{Due: 2, Timed: 1, Missing: 1, Example: "web-00002/web-http-000: no message that it is well again at 60.0 s"}},
		{"one is too many", func(x *alarmed) {
			x.result(0, bad)
			x.post(0, "opened", false)
			x.post(0, "opened", false)
		}, report.Notifications{Due: 1, Timed: 1, Extra: 1, Example: "web-00000/web-http-000: a message at 60.0 s that it fails, which no result brought about"}},
		{"one is made up, and the next one does not come", func(x *alarmed) {
			x.post(0, "opened", false)
			time.Sleep(time.Minute)
			x.result(0, bad)
		}, report.Notifications{Due: 1, Missing: 1, Extra: 1, Example: "web-00000/web-http-000: no message that it fails at 120.0 s"}},
		{"a state had a problem before", func(x *alarmed) {
			x.al.telling.muddle(told{"web-00000", watchedCheck})
			x.result(0, bad)
			x.post(0, "closed", false)
		}, report.Notifications{Unclear: 1}},
		{"a machine that the script left dead", func(x *alarmed) {
			x.post(0, "opened", false)
			x.agents[0].ledger.gone = true
		}, report.Notifications{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := telled(t)
				time.Sleep(2 * time.Minute)
				c.story(x)
				got := *x.al.messages()
				got.Latency, got.Curve = report.Latency{}, nil
				if got.Due != c.want.Due || got.Timed != c.want.Timed || got.Missing != c.want.Missing || got.Extra != c.want.Extra || got.Unclear != c.want.Unclear ||
					got.Again != c.want.Again || got.Example != c.want.Example || x.al.strangers != 0 {
					t.Errorf("%+v, want %+v; %d strangers", got, c.want, x.al.strangers)
				}
				if rep := (&report.Report{Notifications: &got, Valid: true, Balance: &report.Balance{}}); rep.Lost() != (c.want.Missing+c.want.Extra > 0) || rep.OK() == rep.Lost() {
					t.Errorf("lost %t, well %t", rep.Lost(), rep.OK())
				}
			})
		})
	}
}

// A message is timed from when its result was meant, by the phase of that.
func TestMessagesAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := telled(t)
		time.Sleep(time.Second) // warm-up: in no figure
		x.result(0, model.Critical)
		time.Sleep(time.Minute)
		x.post(0, "opened", false)
		x.result(1, model.Critical)
		time.Sleep(150 * time.Millisecond)
		x.post(1, "opened", false)
		got := x.al.messages()
		if l := got.Latency; got.Due != 2 || got.Timed != 1 || l.Max < 149 || l.Max > 151 || l.P999 != l.P50 {
			t.Errorf("%+v", got)
		}
		if h := x.al.run.beside.parts[1].Waits["tell-p99"]; h.Count() != 1 || h.Latency().P99 < 149 {
			t.Errorf("of the phase: %d, %+v", h.Count(), h.Latency())
		}
	})
}

// In a phase that speeds alerts up, checks that are told of change so many times as often, and
// no others; results are as many.
func TestAlertsFourTimesAsOften(t *testing.T) {
	changed := func(storm bool, check scenario.Check) (n int) {
		sc := &scenario.Scenario{Agents: []scenario.Class{{Name: "web", Count: 1, Checks: []scenario.Check{check}}},
			Phases: []scenario.Phase{{Steady: sec(3600), Rate: 1}}}
		if storm {
			sc.Phases[0].Faster = map[string]float64{scenario.Alerts: 4}
		}
		r := &run{cfg: Config{Scenario: sc}, epoch: time.Now(), timetable: timetable{storms: storm}}
		r.follow(newScore(sc.Phases, 0))
		says := outputs.New(7, &check)
		a := &agent{run: r, class: &class{checks: []playing{{says: says, tells: check.Alert != ""}}}, set: &checkSet{definitions: []*model.CheckDefinition{{}}}, status: make([]model.Status, 1)}
		for seq := range uint64(20_000) {
			own := says.Status(0, 0, nil, seq, a.status[0], seq == 0)
			if a.class.checks[0].tells && seq > 0 {
				own = a.storm(0, own, int64(seq), seq)
			}
			if own != a.status[0] && seq > 0 {
				n++
			}
			a.status[0] = own
		}
		return n
	}
	for name, check := range map[string]scenario.Check{
		"digits":  {Name: "app", Output: scenario.Output{Like: scenario.Digits}, Changes: 0.02, Alert: scenario.ByHandler},
		"a mix":   {Name: "app", Output: scenario.Output{Like: "http"}, Changes: 0.02, Status: map[string]float64{"critical": 0.2}, Alert: scenario.ByHandler},
		"not one": {Name: "app", Output: scenario.Output{Like: "http"}, Changes: 0.02},
	} {
		usual, storm := changed(false, check), changed(true, check)
		low, high := 3.3*float64(usual), 4.4*float64(usual)
		if check.Alert == "" {
			low, high = float64(usual), float64(usual)
		}
		if usual < 200 || float64(storm) < low || float64(storm) > high {
			t.Errorf("%s: %d changes, then %d", name, usual, storm)
		}
	}
}
