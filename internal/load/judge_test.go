package load

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGoals(t *testing.T) {
	rep := &Report{Rate: 149_000, Results: 1, BeyondLinger: Latency{P99: 48}, MachineShare: 0.29, Server: Usage{Cores: 0.5, MicrosPerItem: 12.04},
		Outages: []Outage{{Serving: 2, Acked: 2.5, Seconds: 4}, {Serving: 1, Acked: 1.5, Seconds: 6}},
		Pages:   []Paged{{Name: "a", P99: 20, Max: 400}, {Name: "b", P99: 101}, {Name: "c", Search: true, P99: 240, Max: 249}}}
	for _, c := range []struct {
		goal, says string
		met        bool
	}{
		{"rate=150000", "acknowledged: 149,000 results/s, asked at least 150,000 results/s", false},
		{"rate=149000", "", true},
		{"rate=149000/s", "asked at least 149,000 results/s", true},
		{"beyond-p99=0.06s", "asked at most 60.0 ms", true},
		{"beyond-p99=47ms", "asked at most 47.0 ms", false},
		{"machine=30%", "asked at most 30.0 %", true},
		{"back=5s", "asked at most 5.0 s", false},
		{"beyond-p99=60", "p99 beyond the linger: 48.0 ms, asked at most 60.0 ms", true},
		{"machine=30", "both processes, of the machine: 29.0 %, asked at most 30.0 %", true},
		{"server-cpu=12", "server CPU per result: 12.0 µs, asked at most 12.0 µs", false},
		{"back=5", "until all agents were back: 6.0 s", false},
		{"back-serving=5", "from serving until all agents were back: 5.0 s", true},
		{"page-p99=100", "worst kind: 101 ms", false},
		{"search-max=250", "249 ms", true},
		{"state-memory=600", "not measured in this run", false},
	} {
		goal, err := ParseGoal(c.goal)
		if err != nil {
			t.Fatal(err)
		}
		got := Config{Goals: []Goal{goal}}.judge(rep)[0]
		if got.Met != c.met || !strings.Contains(got.String(), c.says) {
			t.Errorf("%s: met %t, %q; want %t, %q", c.goal, got.Met, got, c.met, c.says)
		}
	}
	never := &Report{Outages: []Outage{{Serving: 2, Acked: -1, Seconds: -1}}}
	for _, name := range []string{"back", "acknowledging"} {
		if got := (Config{Goals: []Goal{{Name: name, Want: 10}}}).judge(never)[0]; got.Met {
			t.Errorf("%s: agents that never came back met a goal: %+v", name, got)
		}
	}
	for _, text := range []string{"", "rate", "rate=", "rate=x", "rate=0", "speed=5", "rate=5ms", "p99=0ms", "p99=-1", "p99=-1ms", "p99=NaN", "p99=Inf", "p99=60 parsecs"} {
		if _, err := ParseGoal(text); err == nil {
			t.Errorf("goal %q was taken", text)
		}
	}
}

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
		rep := &Report{Machine: Machine{Cores: 2}, Loader: Usage{Cores: c.loader}, Server: Usage{Cores: c.server}, Others: c.others,
			Lag: Latency{P99: 80}, Balance: &Balance{}}
		rep.judge(Config{MaxLag: 50e6})
		if rep.OK() || len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], c.want) || !strings.Contains(rep.Verdict[0], "p99 80.0 ms") {
			t.Errorf("%+v: %q, want %q", c, rep.Verdict, c.want)
		}
	}
}

func TestParseKept(t *testing.T) {
	for text, want := range map[string]Kept{
		"7 8 9 18446744073709551615 11":     {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11}, // of a server before digests
		"7 8 9 18446744073709551615 11 5 1": {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11, Digest: 5, Expired: true},
	} {
		if k, ok := parseKept(text); !ok || k != want {
			t.Errorf("%s: %+v %t", text, k, ok)
		}
	}
	for _, text := range []string{"", "end", "1 2 3 4", "1 2 3 4 5 6", "1 2 3 4 5 6 7 8", "1 2 3 4 x", "1 2 3 4 -5"} {
		if k, ok := parseKept(text); ok {
			t.Errorf("%q became %+v", text, k)
		}
	}
}

// What a server used is summed over its lives; while it does not run, nothing is added.
func TestLivesOfAServerAreSummed(t *testing.T) {
	o := &odometer{}
	ticks := func(n int) time.Duration { return time.Duration(n) * 10 * time.Millisecond }
	at := func(pid, cpu int) process {
		return o.add(pid, process{cpu: ticks(cpu), rss: int64(pid), written: int64(cpu)})
	}
	for i, c := range []struct {
		pid, cpu   int // as they are read
		life, sum  int
		resident   int64
		sameAsLast bool
	}{
		{7, 100, 0, 100, 7, false},
		{7, 140, 0, 140, 7, true},
		{7, 0, 0, 140, 7, true}, // it ended while it was read
		{0, 0, 0, 140, 0, true},
		{9, 0, 1, 140, 9, false},
		{9, 30, 1, 170, 9, true},
		{9, 20, 2, 190, 9, false}, // the number was given again
	} {
		before := o.add(o.pid, o.last)
		p := at(c.pid, c.cpu)
		if p.life != c.life || p.cpu != ticks(c.sum) || p.written != int64(c.sum) || p.rss != c.resident || p.same(before) != c.sameAsLast {
			t.Errorf("look %d: %+v, want %+v", i, p, c)
		}
	}
	g := &gained{}
	first, last := usage{server: process{cpu: ticks(100)}}, usage{at: 10 * time.Second, server: process{life: 1, cpu: ticks(300)}}
	g.add(first, last)
	if server, _ := g.usages(1000); g.same || server.Cores != 0.2 || server.MicrosPerItem != 2000 {
		t.Errorf("restarted in between: %+v, one process: %t", server, g.same)
	}
}

func TestCountersOfAServerStartedAnew(t *testing.T) {
	before := map[string]float64{"muster_a_total": 100, "muster_b_total": 100, "muster_gauge": 5}
	after := map[string]float64{"muster_a_total": 130, "muster_b_total": 20, "muster_gauge": 3, "go_threads": 9}
	g := &gained{}
	g.add(usage{metrics: before}, usage{at: time.Second, metrics: after})
	d := g.shown()
	if !g.anew {
		t.Error("nobody saw that it was another server")
	}
	gone := &gained{}
	gone.add(usage{metrics: map[string]float64{"muster_agents_x_count": 5}}, usage{at: time.Second, metrics: map[string]float64{"muster_agents_x_count": 4}})
	if gone.anew || gone.metrics["muster_agents_x_count"] != 4 {
		t.Errorf("agents that went are no start of the server: %+v", gone)
	}
	if d["muster_a_total"] != 30 || d["muster_b_total"] != 20 || d["muster_gauge"] != 3 || len(d) != 3 {
		t.Errorf("%v", d)
	}
}

// What made a run fail and is not in its file is not forgotten when that is read.
func TestReportThatWasReadSaysWhatTheRunSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	rep := &Report{Schema: Schema, Valid: true, Balance: &Balance{}, halfway: errors.New("no such command")}
	for _, want := range []bool{false, true} {
		if want {
			rep.halfway = nil
		}
		if err := rep.Save(path); err != nil {
			t.Fatal(err)
		}
		if read, err := Read(path); err != nil || read.OK() != want || rep.OK() != want {
			t.Errorf("want %t: %v, %+v", want, err, read)
		}
	}
}

// What is worse than slow: the ledger, alerts, and what was taken that had to be refused.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		rep  Report
		want bool
	}{
		"nothing":       {Report{}, false},
		"slow":          {Report{Goals: []Goal{{Name: "p99"}}}, false},
		"invalid":       {Report{Valid: false}, false},
		"refused":       {Report{WrongSent: 5}, false},
		"missing":       {Report{Balance: &Balance{Missing: 1}}, true},
		"imbalance":     {Report{Balance: &Balance{Imbalances: 1}}, true},
		"taken":         {Report{WrongSent: 5, WrongTaken: 1}, true},
		"no alert":      {Report{Faults: []Struck{{}, {Missing: 1}}}, true},
		"a wrong alert": {Report{Faults: []Struck{{Extra: 1}}}, true},
	} {
		if c.rep.Balance == nil {
			c.rep.Balance = &Balance{}
		}
		if got := c.rep.Lost(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// People who were not answered are neither a loss nor late; whoever was late is nothing else.
func TestWhatFailedIsNeitherLostNorLate(t *testing.T) {
	for name, c := range map[string]struct {
		rep                Report
		failed, late, lost bool
	}{
		"nothing":           {rep: Report{}},
		"nobody answered":   {rep: Report{people: []string{"1 of 2 requests failed"}}, failed: true},
		"no renames":        {rep: Report{renames: "1 rename failed"}, failed: true},
		"settled too late":  {rep: Report{Phases: []Played{{Kind: "steady", Missed: []string{"p99"}}}}, late: true},
		"a step that broke": {rep: Report{Phases: []Played{{Kind: kindStep, Missed: []string{"p99"}}}}},
		"something lost":    {rep: Report{Balance: &Balance{Missing: 1}}, lost: true},
	} {
		rep := c.rep
		rep.Valid = true
		if rep.Balance == nil {
			rep.Balance = &Balance{}
		}
		if failed, late, lost := len(rep.Failed()) > 0, len(rep.Late()) > 0, rep.Lost(); failed != c.failed || late != c.late || lost != c.lost || rep.OK() == (failed || late || lost) {
			t.Errorf("%s: failed %v, late %v, lost %v, OK %v", name, failed, late, lost, rep.OK())
		}
	}
}
