package scenario

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// unwritten is of a scenario that no file has.
func unwritten(string) bool { return false }

// TestScaledStaysRight scales and shortens random valid scenarios, and expects valid ones with the same agents.
func TestScaledStaysRight(t *testing.T) {
	drawn, right := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		drawn++
		if len(s.check(unwritten)) > 0 {
			return
		}
		right++
		s.Defaults()
		m := Machine{Cores: rapid.IntRange(1, 8).Draw(t, "cores"), Memory: 8 << 30, Files: 20_000}
		for what, form := range map[string]*Scenario{"filled in": s, "scaled": s.Scaled(rapid.Float64Range(0.001, 3).Draw(t, "factor")), "quick": s.Quick(m), "sized": s.Sized(2, 10*time.Second)} {
			if flaws := form.check(unwritten); len(flaws) > 0 {
				t.Fatalf("%s: %v\n%s\nof\n%s", what, flaws, form.Describe(), s.Describe())
			}
			for i := range form.Agents {
				if a, b := len(form.Agents[i].Checks), len(s.Agents[i].Checks); a != b || form.Agents[i].Count < 1 {
					t.Fatalf("%s: class %d has %d agents with %d checks, not %d", what, i, form.Agents[i].Count, a, b)
				}
			}
			most := time.Duration(len(s.Phases)+1) * 20 * time.Second
			for _, p := range s.Phases {
				if p.Grow > 0 { // as finely as the whole, if that takes no longer
					most += time.Duration(growingTime + p.Step)
				}
			}
			if what == "quick" && s.noticeable() == 0 && form.Measured() > max(QuickTime, s.Measured()) && form.Measured() > most {
				t.Fatalf("quick measures for %s:\n%s", form.Measured(), form.Describe())
			}
		}
	})
	if right*20 < drawn {
		t.Errorf("only %d of %d scenarios were right", right, drawn)
	}
}

// TestScaledAsksForWhatIsSent scales scenarios, and expects that planned and sent rates stay as close as before.
func TestScaledAsksForWhatIsSent(t *testing.T) {
	for _, name := range Names() {
		s, err := Load(name)
		testenv.NoError(t, err)
		if s.Objectives["rate"] == "" || s.Rate() == 0 {
			continue
		}
		asked := func(s *Scenario) float64 {
			limit, err := s.Objectives["rate"].In("results/s")
			testenv.NoError(t, err)
			return limit / s.Rate()
		}
		for _, factor := range []float64{0.065, 0.01, 0.0003, 1.01, 3} {
			scaled := s.Scaled(factor)
			twice := scaled.Scaled(0.3)
			if want := asked(s); math.Abs(asked(scaled)-want) > 1e-9 || math.Abs(asked(twice)-want) > 1e-9 {
				t.Errorf("%s × %v: of %v results/s %v are asked for, of %v %v; want %.5f of them", name, factor,
					scaled.Rate(), scaled.Objectives["rate"], twice.Rate(), twice.Objectives["rate"], want)
			}
		}
	}
	s, err := Load("sensu-1mib-outputs")
	testenv.NoError(t, err)
	if few := s.Scaled(0.065); few.Nodes("") != 3 || few.Scale != 0.065 {
		t.Errorf("%d agents, scale %v", few.Nodes(""), few.Scale)
	}
}

// TestQuickFaultsAreJudged expects that faults of quick forms last long enough to be noticed and judged, as in the
// whole form.
func TestQuickFaultsAreJudged(t *testing.T) {
	const forgiven, coming = 5 * time.Second, 8 * time.Second
	judged := map[string]int{}
	for _, name := range Names() {
		whole, err := Load(name)
		testenv.NoError(t, err)
		for _, form := range []*Scenario{whole, whole.Quick(Machine{Cores: 2, Memory: 8 << 30, Files: 20_000}), whole.Quick(Machine{Cores: 64, Memory: 256 << 30, Files: 1 << 20})} {
			for i := range form.Faults {
				f := &form.Faults[i]
				lasts := time.Duration(f.For)
				if f.For == 0 {
					lasts = time.Duration(form.end() - f.At)
				}
				switch {
				case f.Stop != nil:
					for j := range form.Agents {
						c := &form.Agents[j]
						if _, timeout := c.Keepalive.EffectiveTimes(); (f.Stop.Class == "" || f.Stop.Class == c.Name) && lasts < max(time.Duration(timeout)*3/2, time.Duration(timeout)+forgiven+time.Second) {
							t.Errorf("%s: %s for %s: no alert is due after %s", form.Name, f.What(), lasts, timeout)
						}
					}
					for j := range form.Faults {
						if o := &form.Faults[j]; o.Server != "" && o.At+model.Duration(coming) > f.At && o.At < f.At+model.Duration(lasts) {
							t.Errorf("%s: %s from %s for %s: the server is away at %s", form.Name, f.What(), f.At, lasts, o.At)
						}
					}
					judged["stop"]++
				case f.Fail != nil:
					interval := time.Duration(0)
					for _, c := range form.Agents {
						for _, k := range c.Checks {
							if (f.Fail.Class == "" || f.Fail.Class == c.Name) && (k.Name == f.Fail.Check || slices.Contains(k.Names(), f.Fail.Check)) {
								interval = max(interval, time.Duration(k.Interval))
							}
						}
					}
					if interval == 0 || lasts < 2*interval || time.Duration(form.end()-f.At)-lasts < interval {
						t.Errorf("%s: %s for %s of %s, every %s", form.Name, f.What(), lasts, form.end(), interval)
					}
					judged["fail"]++
				}
			}
			if len(form.Faults) != len(whole.Faults) {
				t.Fatalf("%s: %d faults, not %d", form.Name, len(form.Faults), len(whole.Faults))
			}
			for i := range whole.Faults {
				for j := range whole.Faults {
					a, b, x, y := &whole.Faults[i], &whole.Faults[j], &form.Faults[i], &form.Faults[j]
					if a.At < b.At && x.At >= y.At || a.At+a.For < b.At && x.At+x.For > y.At {
						t.Errorf("%s: %s from %s for %s, %s at %s: not as in the whole", form.Name, a.What(), x.At, x.For, b.What(), y.At)
					}
				}
			}
		}
	}
	if judged["stop"] < 9 || judged["fail"] < 6 {
		t.Errorf("judged %v", judged)
	}
}

// TestQuickWarmsUpBehindSteps expects a warm-up of at most a sixth of a phase in quick forms, and half of it after
// steps, to work off the backlog.
func TestQuickWarmsUpBehindSteps(t *testing.T) {
	whole, err := Load("muster-overload")
	testenv.NoError(t, err)
	for _, c := range []struct {
		phases []Phase
		phase  int
		length int // seconds
		warmup time.Duration
	}{
		{whole.Phases, 2, 30, 15 * time.Second},
		{[]Phase{{Step: sec(15), To: 4}, {Steady: sec(90), Warmup: sec(5), Of: Saturation, Rate: 0.9}}, 1, 30, 5 * time.Second},
		{[]Phase{{Step: sec(15), To: 4}, {Steady: sec(90), Of: Saturation, Rate: 0.9}}, 1, 30, 0},
		{[]Phase{{Steady: sec(600), Warmup: sec(60)}}, 0, 60, 10 * time.Second},
	} {
		s := &Scenario{Agents: whole.Agents, Phases: slices.Clone(c.phases)}
		s.shorten(QuickTime)
		if p := s.Phases[c.phase]; p.Length() != sec(c.length) || time.Duration(p.Warmup) != c.warmup {
			t.Errorf("%+v: %s with %s of warm-up, want %d s with %s", c.phases[c.phase], p.Length(), p.Warmup, c.length, c.warmup)
		}
	}
}

// sec returns a duration of n seconds.
func sec(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// drawScenario returns a random scenario, mostly a valid one.
func drawScenario(t *rapid.T) *Scenario {
	seconds := func(low, high int, what string) model.Duration {
		return model.Duration(rapid.IntRange(low, high).Draw(t, what)) * model.Duration(time.Second)
	}
	s := &Scenario{Scenario: Version, Name: "drawn"}
	for i := range rapid.IntRange(1, 3).Draw(t, "classes") {
		c := Class{Name: string(rune('a' + i)), Count: rapid.IntRange(1, 50_000).Draw(t, "count"), TLS: rapid.Bool().Draw(t, "tls")}
		if rapid.Bool().Draw(t, "keepalive") {
			c.Keepalive = &model.Keepalive{Interval: seconds(1, 10, "interval"), Timeout: seconds(11, 60, "timeout")}
		}
		c.Checks = []Check{{Name: "x", Count: rapid.IntRange(1, 40).Draw(t, "checks"), Interval: seconds(1, 60, "every")}}
		c.Churn = Churn{Reconnects: rapid.SampledFrom([]Rate{"", "1%/min", "3/h", "0.001/s"}).Draw(t, "reconnects")}
		s.Agents = append(s.Agents, c)
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "phases") {
		p := Phase{Steady: seconds(1, 900, "steady"), Rate: rapid.SampledFrom([]float64{0, 0.5, 1.2}).Draw(t, "rate")}
		switch {
		case i > 1 && rapid.Bool().Draw(t, "settle"):
			p.Settle = min(p.Steady, seconds(1, 60, "within"))
		case rapid.Bool().Draw(t, "step"):
			p = Phase{Step: p.Steady, To: rapid.Float64Range(1, 12).Draw(t, "to"), By: rapid.Float64Range(0.05, 2).Draw(t, "by")}
			if rapid.Bool().Draw(t, "grows") {
				p.By, p.Grow = 0, rapid.Float64Range(0.05, 2).Draw(t, "grow")
			}
		case rapid.Bool().Draw(t, "warm"):
			p.Warmup = p.Steady / 3
		}
		s.Phases = append(s.Phases, p)
	}
	end := int(time.Duration(s.end()).Seconds())
	for range rapid.IntRange(0, 4).Draw(t, "faults") {
		f := Fault{At: seconds(0, end, "at"), For: seconds(0, 60, "for")}
		pick := Pick{Class: rapid.SampledFrom([]string{"", "a"}).Draw(t, "class"), Count: rapid.IntRange(0, 100).Draw(t, "some")}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			f.Stop = &pick
		case 1:
			f.Fail = &FailCheck{Pick: pick, Check: s.Agents[0].Checks[0].Names()[0]}
		case 2:
			f.Cut, f.For = &pick, 0
		case 3:
			f.Server = "stop"
		}
		s.Faults = append(s.Faults, f)
	}
	if rapid.Bool().Draw(t, "change") {
		s.Intent = []Change{{At: seconds(0, end, "then"), Every: seconds(0, 90, "again"), Create: 1, Kind: "check"}}
	}
	s.Objectives = map[string]Limit{"rate": "1000", "p99": "900ms"}
	return s
}

// TestStepsGrow expects steps that grow by a share, and an overload beyond each of them.
func TestStepsGrow(t *testing.T) {
	p := Phase{Step: model.Duration(time.Second), Rate: 0.5, Grow: 0.15, To: 1}
	if got := fmt.Sprintf("%.3f", p.Rates()); got != "[0.500 0.575 0.661 0.760 0.875]" {
		t.Errorf("rates %s", got)
	}
	shipped, err := Load("muster-overload")
	testenv.NoError(t, err)
	for _, s := range []*Scenario{shipped, shipped.Quick(Machine{Cores: 2, Memory: 8 << 30, Files: 1 << 20})} {
		var rates []float64
		for _, p := range s.Phases {
			switch {
			case p.Step > 0:
				rates = p.Rates()
			case p.Beyond():
				for i := range rates[1:] { // whichever is the first to break
					if p.Rate*rates[i] <= rates[i+1] {
						t.Errorf("%s: an overload of %.3f is not beyond the step of %.3f", s.Name, p.Rate*rates[i], rates[i+1])
					}
				}
			}
		}
	}
}

// TestQuickPhasesHaveEnoughAnswers expects that the compared phases of quick forms are long enough for twenty answers
// to the rarest request, and not longer than in the whole form.
func TestQuickPhasesHaveEnoughAnswers(t *testing.T) {
	mixed, err := Load("muster-mixed")
	testenv.NoError(t, err)
	quick := mixed.Scaled(0.2).Quick(Machine{})
	for i, p := range quick.Phases {
		if !p.Measured() {
			continue
		}
		for _, r := range []Rate{quick.Operators.Applies, quick.Operators.Runs, quick.Operators.Facts, quick.Operators.Silences} {
			if n := r.PerSecond(quick.Nodes("")) * time.Duration(*p.length()-p.Warmup).Seconds(); n < FewAnswers {
				t.Errorf("%s lasts %s: %.0f answers at %s", p.Name, time.Duration(*p.length()), n, r)
			}
		}
		if *p.length() > *mixed.Phases[i].length() {
			t.Errorf("%s is longer than in the whole", p.Name)
		}
	}
	if whole := time.Duration(quick.played()); whole > 2*time.Minute {
		t.Errorf("%s for a quick run", whole)
	}
	rare := mixed.clone()
	rare.Operators.Silences = "1/min"
	for i, p := range rare.Quick(Machine{}).Phases {
		if p.Measured() && *p.length() != *mixed.Phases[i].length() {
			t.Errorf("one answer a minute: %s lasts %s, want the whole's", p.Name, time.Duration(*p.length()))
		}
	}
	even := mixed.clone()
	for i := range even.Phases {
		even.Phases[i].Faster = nil
	}
	if d := even.Quick(Machine{}).played(); d > model.Duration(70*time.Second) {
		t.Errorf("nothing is sped up, and it takes %s", time.Duration(d))
	}
}

// TestFilesAreTheLeast expects the smallest limit of open files with which loader and server hold the connections.
func TestFilesAreTheLeast(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, n := range []int{1, 50, 312, 448, 824, 900, 4000, 7118, 7119, 18_926, 18_927, 100_000_000} {
			files := Files(n, own)
			if Connections(files, own) < n || Connections(files-1, own) >= n {
				t.Errorf("own server %t: %d connections need %d files, of which %d are for them, of one less %d", own, n, files,
					Connections(files, own), Connections(files-1, own))
			}
			if own && model.MaxConnections(files) <= n {
				t.Errorf("a server lets %d in with %d files, and has to let %d agents in and people", model.MaxConnections(files), files, n)
			}
		}
	}
	// A server keeps 1,024 of 20,000 files for itself, and a loader 200.
	if loader, both := Connections(20_000, false), Connections(20_000, true); loader != 19_800 || both != 18_926 {
		t.Errorf("%d agents of a loader alone, %d beside its server", loader, both)
	}
}
