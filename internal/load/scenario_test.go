package load

import (
	"math"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// towns returns a scenario of two classes with checks of two intervals.
func towns(phases ...scenario.Phase) *scenario.Scenario {
	return &scenario.Scenario{Name: "towns", Seed: 5, Phases: phases, Agents: []scenario.Class{
		{Name: "web", Count: 20, Linger: sec(1), Checks: []scenario.Check{
			{Name: "disk", Interval: sec(2), Output: scenario.Output{Like: "disk"}, Status: map[string]float64{"WARNING": 0.2}, Changes: 0.05},
			{Name: "port", Count: 3, Interval: sec(1)}}},
		{Name: "db", Count: 10, PerFrame: 2, Checks: []scenario.Check{{Name: "disk", Interval: sec(1), Flapping: 0.3}}},
	}}
}

// TestScenarioIsPlayed plays two phases, and expects 20×(0.5+3) + 10 results a second in one, and half as many more in
// the other. Every state must agree with the view.
func TestScenarioIsPlayed(t *testing.T) {
	sc := towns(scenario.Phase{Ramp: sec(5)}, scenario.Phase{Steady: sec(14), Warmup: sec(4)}, scenario.Phase{Name: "more", Steady: sec(10), Rate: 1.5}, scenario.Phase{Drain: sec(5)})
	cfg := of(sc)
	var samples []report.Sample
	cfg.Progress = func(s report.Sample) { samples = append(samples, s) }
	rep := playOn(t, cfg, &ideal{})
	if !rep.OK() || len(rep.Verdict) > 0 || rep.Balance.Compared != 20*4+10 {
		t.Fatalf("%v, %+v", rep.Verdict, rep.Balance)
	}
	if len(rep.Phases) != 4 || rep.Phases[0].Kind != "ramp" || rep.Phases[2].Name != "more" || rep.Phases[3].Kind != "drain" {
		t.Fatalf("phases %+v", rep.Phases)
	}
	steady, more := rep.Phases[1], rep.Phases[2]
	near := func(got, want float64) bool { return math.Abs(got-want) < 0.04*want }
	if !near(steady.Offered, 80) || !near(steady.Acknowledged, 80) || !near(more.Offered, 120) || !near(rep.Rate, 100) || rep.ConnectSeconds < 4.5 {
		t.Errorf("offered %.1f, then %.1f; %.1f/s over both; connected after %.2f s", steady.Offered, more.Offered, rep.Rate, rep.ConnectSeconds)
	}
	if steady.From != 0 || steady.To != 10 || more.From != 10 || more.To != 20 || rep.Phases[0].From > -8.5 {
		t.Errorf("times: %+v %+v, ramp from %.1f", steady, more, rep.Phases[0].From)
	}
	// A class that closes its frames has less to wait for than one that lingers.
	if rep.Batch.Max < 3 || rep.Latency.Max < 900 || rep.Latency.Max > 1020 || len(rep.Curve) < 20 || rep.Curve[len(rep.Curve)-1].Ms > rep.Latency.Max+10 {
		t.Errorf("batch %+v, latency %+v, %d points", rep.Batch, rep.Latency, len(rep.Curve))
	}
	offered := uint64(0)
	for i, s := range rep.Samples {
		if i > 0 && s.Second != rep.Samples[i-1].Second+1 {
			t.Errorf("second %d follows %d", s.Second, rep.Samples[i-1].Second)
		}
		offered += s.Offered
		if s.Second >= 0 && s.Second < 19 && (s.Latency == nil || s.Latency.P50 <= 0 || s.Phase == "" || s.Offered < 60) {
			t.Errorf("sample %+v", s)
		}
	}
	if want := 80*14 + 120*10; !near(float64(offered), float64(want)) || rep.Samples[0].Phase != "ramp" || rep.Samples[0].Second > -7 || len(samples) != len(rep.Samples) {
		t.Errorf("%d offered in all samples, want %d; the first is %+v", offered, want, rep.Samples[0])
	}
}

// TestStepsFindTheLimit plays steps against a server that takes 130 results a second, and expects the highest rate
// below.
func TestStepsFindTheLimit(t *testing.T) {
	sc := towns(scenario.Phase{Step: sec(10), By: 0.5, To: 4}, scenario.Phase{Name: "after", Steady: sec(5), Rate: 0.5})
	sc.Objectives = map[string]scenario.Limit{"p99": "2s", "rate": "100"}
	srv := &ideal{perSecond: 130}
	rep := playOn(t, of(sc), srv)
	var names []string
	for _, p := range rep.Phases {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, ", "); got != "step ×1, step ×1.5, step ×2, step ×2 again, after, drain" {
		t.Fatalf("phases %s", got)
	}
	if broken := rep.Phases[2]; len(broken.Missed) == 0 || len(rep.Phases[1].Missed) > 0 || broken.To-broken.From != 10 {
		t.Errorf("broken %+v", broken)
	}
	if v, ok := rep.Figures()["saturation"]; !ok || v < 110 || v > 130 || rep.Rate > 120 {
		t.Errorf("saturation %.1f %t, rate of what counts %.1f", v, ok, rep.Rate)
	}
	if !strings.Contains(rep.Text(), "results/s in the last step that held") {
		t.Error(rep.Text())
	}
	// 10 s at 1 and 1.5, 10 s that broke, some seconds until that was known, 5 s to recover,
	// 10 s that broke once more, some seconds until that was known, 5 s at a half.
	if after := rep.Phases[4]; after.From < 46 || after.From > 51 || after.Offered < 36 || after.Offered > 44 {
		t.Errorf("after %+v", after)
	}
	if rep.Balance.Missing > 0 || rep.Balance.Imbalances > 0 {
		t.Errorf("ledger %+v", rep.Balance)
	}
}

// TestTheLastStepBreaks plays steps up to one that breaks at the end of the run, and expects that its rate is not the
// saturation.
func TestTheLastStepBreaks(t *testing.T) {
	sc := towns(scenario.Phase{Step: sec(10), By: 0.5, To: 2})
	sc.Objectives = map[string]scenario.Limit{"p99": "2s"}
	rep := playOn(t, of(sc), &ideal{perSecond: 130})
	if len(rep.Phases) != 4 || len(rep.Phases[2].Missed) == 0 || len(rep.Phases[1].Missed) > 0 {
		t.Fatalf("%+v", rep.Phases)
	}
	if v, ok := rep.Figures()["saturation"]; !ok || v < 110 || v > 130 || rep.Latency.P99 > 2000 || !rep.OK() {
		t.Errorf("saturation %.1f %t, p99 %.0f ms, %v", v, ok, rep.Latency.P99, rep.Verdict)
	}
}

// TestFaultsStrike plays faults of several kinds, and expects that they strike and that the ledger agrees with the
// server.
func TestFaultsStrike(t *testing.T) {
	sc := towns(scenario.Phase{Steady: sec(40)})
	sc.Faults = []scenario.Fault{
		{At: sec(5), For: sec(10), Stop: &scenario.Pick{Class: "web", Count: 4}},
		{At: sec(8), Stop: &scenario.Pick{Class: "db", Count: 2}},
		{At: sec(16), For: sec(8), Fail: &scenario.FailCheck{Check: "port", Pick: scenario.Pick{Class: "web", Count: 3}, Status: "UNKNOWN"}},
		{At: sec(12), For: sec(5), Wrong: &scenario.Pick{Class: "db", Count: 5}},
		{At: sec(25), Cut: &scenario.Pick{}},
	}
	unknown := 0
	srv := &ideal{hears: func(s *wire.Signal) {
		if r, err := s.Result(); err != nil {
			t.Error(err)
		} else if r.Status == model.Unknown {
			unknown++
		}
	}}
	rep := playOn(t, of(sc), srv)
	if !rep.OK() {
		t.Fatalf("%v %+v", rep.Verdict, rep.Balance)
	}
	if len(rep.Faults) != 5 || rep.Faults[0].What != "stop 4 of web for 10s" || rep.Faults[2].Places != 9 {
		t.Fatalf("%+v", rep.Faults)
	}
	for i, want := range []struct{ at, until, backAtMost float64 }{{5, 15, 2}, {8, 0, 0}, {16, 24, 0}, {12, 17, 0}, {25, 0, 2}} {
		f := rep.Faults[i]
		if math.Abs(f.At-want.at) > 0.2 || math.Abs(f.Until-want.until) > 0.2 || (f.Back > 0) != (want.backAtMost > 0) || f.Back > want.backAtMost {
			t.Errorf("fault %d: %+v, want %+v", i, f, want)
		}
	}
	// Three agents, three checks a second each, for eight seconds.
	if unknown < 65 || unknown > 79 {
		t.Errorf("%d results are UNKNOWN, want about 72", unknown)
	}
	if len(rep.Outages) != 1 || rep.Outages[0].Lost < 28 || rep.Balance.Refused < 20 || rep.WrongTaken > 0 || rep.WrongSent != rep.Balance.Refused {
		t.Errorf("outages %+v, %d refused, %d sent to be", rep.Outages, rep.Balance.Refused, rep.WrongSent)
	}
}

// TestChurn lets machines reconnect, restart and go offline, and expects no outage and no lost result.
func TestChurn(t *testing.T) {
	sc := towns(scenario.Phase{Steady: sec(60)})
	sc.Agents[0].Churn = scenario.Churn{Reconnects: "30/min", Restarts: "20/min", Offline: "20/min", OfflineFor: sec(5)}
	srv := &ideal{}
	rep := playOn(t, of(sc), srv)
	if !rep.OK() || len(rep.Outages) > 0 || len(rep.Losses) > 0 {
		t.Fatalf("%v, outages %+v, losses %v", rep.Verdict, rep.Outages, rep.Losses)
	}
	if n := srv.sessions - 30; n < 40 || n > 110 {
		t.Errorf("%d sessions more than agents, want about 70", n)
	}
	boots := 0
	for _, ids := range srv.boots {
		boots += len(ids)
	}
	if n := boots - 30; n < 8 || n > 35 {
		t.Errorf("%d boots, want about 20", n)
	}
	if rep.Latency.Max < 4000 {
		t.Errorf("nothing was spooled: %+v", rep.Latency)
	}
	for _, s := range rep.Samples {
		if s.Second > 0 && s.Second < 59 && s.Connected < 20 {
			t.Errorf("%d connected at %d s", s.Connected, s.Second)
		}
	}
}
