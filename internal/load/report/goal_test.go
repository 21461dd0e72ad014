package report

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestSettlingIsOfAllThatHadTo expects no settling time if one of the phases did not settle, or was not judged.
func TestSettlingIsOfAllThatHadTo(t *testing.T) {
	for _, c := range []struct {
		asked   int
		settled []float64 // of the phases of the report
		want    float64
		ok      bool
	}{
		{1, []float64{0, 0, 3}, 3, true},
		{2, []float64{0, 0, 3, 0, 7}, 7, true},
		{1, []float64{0, 0}, 0, false},
		{1, []float64{0, 0, -1}, 0, false},
		{2, []float64{0, 0, 3, 0, 0}, 3, false},
		{0, []float64{0, 0}, 0, false},
	} {
		rep := &Report{Scenario: &scenario.Scenario{Phases: []scenario.Phase{{Steady: sec(60)}, {Steady: sec(60), Rate: 2}}}}
		for range c.asked {
			rep.Scenario.Phases = append(rep.Scenario.Phases, scenario.Phase{Steady: sec(60), Settle: sec(30)})
		}
		for _, s := range c.settled {
			rep.Phases = append(rep.Phases, Played{Assessment: Assessment{Settled: s}})
		}
		if got, ok := rep.settling(); got != c.want || ok != c.ok {
			t.Errorf("%+v: %v, %t", c, got, ok)
		}
	}
	if _, ok := (&Report{}).settling(); ok {
		t.Error("a run without a scenario settled")
	}
}

// TestEveryFigureIsFound expects that a complete report has exactly the figures that a scenario can limit.
func TestEveryFigureIsFound(t *testing.T) {
	l, behind, asked := Latency{P50: 1, P99: 1, P999: 1, Max: 1}, 1.0, scenario.Scenario{Phases: []scenario.Phase{{Settle: sec(1)}}}
	rep := &Report{Scenario: &asked, Machine: Machine{Cores: 2}, Traffic: Traffic{Rate: 1, Results: 1},
		Span: Span{InTime: &behind, Latency: l, BeyondLinger: l, Server: Usage{Cores: 1, MicrosPerItem: 1, RSS: 1, LockShare: 1}, Loader: Usage{Cores: 1, MicrosPerItem: 1}}, Cost: Cost{SessionBytes: 1, AgentBytes: 1, StateBytes: 1, ConnectSeconds: 1, Inside: &Inside{1, 1, 1, 1, 1, 1}, Calls: &Calls{Reads: 1, Writes: 1, Syncs: 1}, Disk: &Disk{PerResult: 1}},
		Course:  Course{Phases: []Played{{Kind: KindStep, Acknowledged: 1, Assessment: Assessment{Settled: 1}}}, Faults: []Struck{{Detected: l, Cleared: l}}, Outages: []Outage{{Serving: 1, Acked: 1, Seconds: 2}}, Turns: &Turned{Taken: 1, Took: l}, Changes: []Held{{Holds: l}}, Notifications: &Notifications{Latency: l}, Streamed: &Streamed{Latency: l}},
		Samples: []Sample{{Second: 1, Internals: Internals{Behind: &behind}}}}
	for _, what := range []string{"list", "apply", "silence", "watch", "run", "fact"} {
		rep.Operators = append(rep.Operators, Worked{What: what, Latency: l})
	}
	all := rep.Figures()
	for _, f := range scenario.Figures() {
		if _, ok := all[f.Name]; !ok {
			t.Errorf("%s is not in the report", f.Name)
		}
		delete(all, f.Name)
	}
	if len(all) > 0 {
		t.Errorf("no scenario can ask for %v", all)
	}
}

// TestFiguresOfATarget expects that the run against another system has no figures of acknowledgements.
func TestFiguresOfATarget(t *testing.T) {
	rep := &Report{Traffic: Traffic{Rate: 100}, Span: Span{InTime: new(1.0), Latency: Latency{P50: 1, P99: 2, P999: 3, Max: 4}, BeyondLinger: Latency{P50: 1, P99: 2}}, Cost: Cost{ConnectSeconds: 5}}
	rep.Plan.Offered = 100
	all := rep.Figures()
	rep.Targeted = &Targeted{Name: "sensu"}
	some := rep.Figures()
	for _, name := range [...]string{"held", "p50", "p99", "p999", "max", "beyond-p50", "beyond-p99"} {
		if _, ok := all[name]; !ok {
			t.Errorf("Muster: no %s", name)
		}
		if v, ok := some[name]; ok {
			t.Errorf("sensu: %s %g", name, v)
		}
	}
	if some["rate"] != 100 || some["connect"] != 5 {
		t.Errorf("%v", some)
	}
}

// TestGoals parses goals, and expects errors for unknown figures and units.
func TestGoals(t *testing.T) {
	rep := &Report{Machine: Machine{Cores: 2}, Traffic: Traffic{Rate: 149_000, Results: 1}, Span: Span{BeyondLinger: Latency{P99: 48}, Server: Usage{Cores: 0.5, MicrosPerItem: 12.04}, Loader: Usage{Cores: 0.08}},
		Course: Course{Outages: []Outage{{Serving: 2, Acked: 2.5, Seconds: 4}, {Serving: 1, Acked: 1.5, Seconds: 6}}}}
	for _, c := range []struct {
		goal, says string
		met        bool
	}{
		{"rate=150000", "acknowledged: 149,000 results/s, asked at least 150,000 results/s", false},
		{"rate=149000", "", true},
		{"rate=149000/s", "asked at least 149,000 results/s", true},
		{"beyond-p99=0.06s", "asked at most 60 ms", true},
		{"beyond-p99=47ms", "asked at most 47 ms", false},
		{"machine=30%", "asked at most 30 %", true},
		{"back=5s", "asked at most 5 s", false},
		{"beyond-p99=60", "p99 beyond the linger: 48.0 ms, asked at most 60 ms", true},
		{"machine=30", "both processes, of the machine: 29 %, asked at most 30 %", true},
		{"server-cpu=12", "server CPU per result: 12.0 µs, asked at most 12 µs", false},
		{"back=5", "until all agents were back: 6.00 s", false},
		{"back-serving=5", "from serving until all agents were back: 5.00 s", true},
		{"state-memory=600", "not measured in this run", false},
	} {
		goal, err := ParseGoal(c.goal)
		testenv.NoError(t, err)
		got := rep.Judged([]Goal{goal})[0]
		if got.Met != c.met || !strings.Contains(got.String(), c.says) {
			t.Errorf("%s: met %t, %q; want %t, %q", c.goal, got.Met, got, c.met, c.says)
		}
	}
	never := &Report{Course: Course{Outages: []Outage{{Serving: 2, Acked: -1, Seconds: -1}}}}
	for _, name := range []string{"back", "acknowledging"} {
		if got := never.Judged([]Goal{{Name: name, Want: 10}})[0]; got.Met {
			t.Errorf("%s: agents that never came back met a goal: %+v", name, got)
		}
	}
	for _, text := range []string{"", "rate", "rate=", "rate=x", "rate=0", "speed=5", "rate=5ms", "p99=0ms", "p99=-1", "p99=-1ms", "p99=NaN", "p99=Inf", "p99=60 parsecs"} {
		if _, err := ParseGoal(text); err == nil {
			t.Errorf("goal %q was taken", text)
		}
	}
}

// sec returns a duration of n seconds.
func sec(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// TestNothingMayBeMeasured expects that a figure of 0 counts as measured: it keeps an upper limit and misses a lower
// one.
func TestNothingMayBeMeasured(t *testing.T) {
	none := 0.0
	rep := &Report{Traffic: Traffic{Results: 100}, Span: Span{InTime: &none, Server: Usage{RSS: 1}}, Cost: Cost{ConnectCPU: 0.1, Inside: &Inside{}, Calls: &Calls{}}}
	for _, c := range []struct {
		figure string
		rate   float64
		met    bool
	}{{"rate", 0, false}, {"held", 0, false}, {"lock-share", 0, true}, {"gc-cpu", 5, true}, {"fsyncs", 5, true}} {
		rep.Rate = c.rate
		if g := rep.Judged([]Goal{{Name: c.figure, Want: 1}})[0]; g.Why != "" || g.Got != 0 || g.Met != c.met {
			t.Errorf("%s: %+v", c.figure, g)
		}
		if g := (&Report{}).Judged([]Goal{{Name: c.figure, Want: 1}})[0]; g.Why == "" || g.Met {
			t.Errorf("%s of a run that measured nothing: %+v", c.figure, g)
		}
	}
	if g := rep.Judged([]Goal{{Name: "agent-memory", Want: 1}})[0]; !g.Met || !strings.HasPrefix(g.Why, "not known: ") {
		t.Errorf("memory of agents whose server shrank: %+v", g)
	}
	if v, there := rep.Figures()["agent-memory"]; there {
		t.Errorf("memory of agents whose server shrank: %g", v)
	}
}

// TestFiguresOfASecond expects that a second has only figures with an objective, and none that it does not show.
func TestFiguresOfASecond(t *testing.T) {
	behind := 3.5
	s := &Sample{Latency: &Latency{P50: 1, P99: 2, P999: 3, Max: 4}, Beyond: 1.5, Internals: Internals{Behind: &behind}, Waits: map[string]float64{"list-p99": 70}}
	want := map[string]float64{"p50": 1, "p99": 2, "p999": 3, "max": 4, "beyond-p99": 1.5, "history-behind": 3.5, "list-p99": 70}
	if got := s.Figures(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name := range want {
		if f, ok := scenario.FigureOf(name); !ok || f.Least {
			t.Errorf("%s is no figure with a limit from above", name)
		}
	}
	if got := (&Sample{Phase: "ramp"}).Figures(); len(got) > 0 || len(s.Waits) != 1 {
		t.Errorf("%v, %v", got, s.Waits)
	}
}

// TestSavedForPrograms expects the verdict, the objectives and the figures in run.json, as terminal and page show them.
func TestSavedForPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	rep := &Report{Schema: Schema, Valid: true, Balance: &Balance{Sent: 5, Compared: 1}, Traffic: Traffic{Rate: 4}, Goals: []Goal{{Name: "rate", Want: 3, Got: 4, Met: true}}}
	testenv.NoError(t, rep.Save(path))
	text, err := os.ReadFile(path)
	testenv.NoError(t, err)
	for _, want := range []string{`"passed":true`, `{"met":true,"what":"acknowledged","asked":"at least 3 results/s","got":"4.00 results/s","value":4,"limit":3}`, `"got":"all of 5"`, `"figures":{"rate":4}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// FuzzRead reads random files, and expects an error or a report that can be shown.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"muster.load/1","balance":{"sent":6,"acknowledged":5,"missing":1},"phases":[{"name":"step","kind":"step","missed":["p99"]}],"verdict":["lost"]}`))
	f.Add([]byte(`{"schema":"muster.load/1","balance":{},"scenario":{"agents":[{"count":3,"tls":true}]},"targeted":{"name":"sensu"},"pages":[{"name":"all","failed":"no answer"}]}`))
	f.Add([]byte(`{"schema":"muster.load/2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rep, err := decode("run.json", data)
		if err != nil {
			return
		}
		if rep.Figures(); rep.Text() == "" || rep.Lost() != (len(rep.Wrong().Sentences()) > 0) {
			t.Errorf("%+v", rep)
		}
	})
}
