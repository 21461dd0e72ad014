package load

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// A run whose generator fell behind says who had the cores.
func TestWhyTheGeneratorFellBehind(t *testing.T) {
	for _, c := range []struct {
		loader, server, others float64
		want                   string
	}{
		{0.6, 1.3, 0.05, "the machine was full (loader 0.60, server 1.30, others 0.05 of 2 cores)"},
		{0.3, 0.4, 1.2, "something else used the machine"},
		{0.3, 0.4, 0.1, "the machine had room"},
		{0.3, 0, 0, "--server-pid"},
	} {
		rep := &reporting{Report: &report.Report{Machine: report.Machine{Cores: 2}, Loader: report.Usage{Cores: c.loader}, Server: report.Usage{Cores: c.server}, Others: c.others,
			Lag: report.Latency{P99: 80}, Balance: &report.Balance{}}}
		rep.judge(Config{MaxLag: 50e6})
		if rep.OK() || len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], c.want) || !strings.Contains(rep.Verdict[0], "p99 80.0 ms") {
			t.Errorf("%+v: %q, want %q", c, rep.Verdict, c.want)
		}
	}
}

// A generator that stood still for a moment is in no p99. What is asked of p99.9 and of the slowest it
// may have missed by itself: then nothing is said of the server.
func TestAGeneratorThatStumbled(t *testing.T) {
	for _, c := range []struct {
		name    string
		goal    report.Goal
		lag     report.Latency
		valid   bool
		verdict int
	}{
		{"the server was slow", report.Goal{Name: "max", Want: 1000}, report.Latency{P99: 5, P999: 9, Max: 20}, true, 1},
		{"both were", report.Goal{Name: "max", Want: 1000}, report.Latency{P99: 5, P999: 9, Max: 1400}, false, 2},
		{"p99.9", report.Goal{Name: "p999", Want: 1000}, report.Latency{P99: 5, P999: 1200, Max: 1400}, false, 2},
		{"not at p99.9", report.Goal{Name: "p999", Want: 1000}, report.Latency{P99: 5, P999: 40, Max: 1400}, true, 1},
		{"another figure", report.Goal{Name: "p50", Want: 1000}, report.Latency{P99: 5, P999: 1200, Max: 1400}, true, 1},
		{"met all the same", report.Goal{Name: "max", Want: 2000}, report.Latency{P99: 5, P999: 9, Max: 1400}, true, 0},
		{"of a phase, and another one stumbled", report.Goal{Name: "max", Want: 1000, Phase: "rush"}, report.Latency{P99: 5, P999: 9, Max: 1400}, true, 1},
	} {
		late := report.Latency{P50: 1500, P999: 1500, Max: 1500}
		rep := &reporting{Report: &report.Report{Machine: report.Machine{Cores: 2}, Latency: late, Lag: c.lag, Balance: &report.Balance{}}}
		cfg := Config{MaxLag: 50e6}
		if c.goal.Phase != "" {
			rep.Phases = []report.Played{{Name: c.goal.Phase, Kind: "steady", Latency: late, Lag: report.Latency{Max: 30}, Asked: map[string]scenario.Limit{c.goal.Name: "1s"}}}
		} else {
			cfg.Goals = []report.Goal{c.goal}
		}
		rep.judge(cfg)
		if rep.Valid != c.valid || len(rep.Verdict) != c.verdict {
			t.Errorf("%s: valid %t, %q", c.name, rep.Valid, rep.Verdict)
		}
	}
}

// A run that was allowed to be late is valid, and says so wherever its figures are shown.
func TestAllowedToBeLate(t *testing.T) {
	for lag, labels := range map[time.Duration]int{0: 0, 50 * time.Millisecond: 0, 1500 * time.Millisecond: 1} {
		c, err := Config{Server: "127.0.0.1:1", Scenario: scenario.Uniform{}.Scenario(), MaxLag: lag}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		rep := newReport(c)
		if len(rep.Label) != labels || rep.Plan.MaxLag != ms(c.MaxLag) || labels > 0 && !strings.Contains(rep.Label[0], "allowed to be 1.5s late (p99), not 50ms") {
			t.Errorf("%s: %q, %v", lag, rep.Label, rep.Plan.MaxLag)
		}
	}
}

func TestParseKept(t *testing.T) {
	for text, want := range map[string]observe.EventState{
		"7 8 9 18446744073709551615 11 5 1 0":          {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11, Digest: 5, Expired: true},
		"7 8 9 18446744073709551615 11 5 0 4294967295": {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11, Digest: 5, Order: 1<<32 - 1},
	} {
		if k, ok := parseState(text); !ok || k != want {
			t.Errorf("%s: %+v %t", text, k, ok)
		}
	}
	for _, text := range []string{"", "end", "1 2 3 4", "1 2 3 4 5 6 7", "1 2 3 4 5 6 7 8 9", "1 2 3 4 x", "1 2 3 4 -5"} {
		if k, ok := parseState(text); ok {
			t.Errorf("%q became %+v", text, k)
		}
	}
}
