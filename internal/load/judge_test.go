package load

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
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
