package usage

import (
	"sync"
	"testing"
	"time"
)

// TestLivesOfAServerAreSummed restarts a server, and expects the sum of the use of its processes, without the time
// between.
func TestLivesOfAServerAreSummed(t *testing.T) {
	o := &Odometer{}
	ticks := func(n int) time.Duration { return time.Duration(n) * 10 * time.Millisecond }
	at := func(pid, cpu int) Process {
		return o.add(pid, Process{CPU: ticks(cpu), RSS: int64(pid), Written: int64(cpu)})
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
		if p.Life != c.life || p.CPU != ticks(c.sum) || p.Written != int64(c.sum) || p.RSS != c.resident || p.Same(before) != c.sameAsLast {
			t.Errorf("look %d: %+v, want %+v", i, p, c)
		}
	}
	g := &Gained{}
	first, last := SoFar{Server: Process{CPU: ticks(100)}}, SoFar{At: 10 * time.Second, Server: Process{Life: 1, CPU: ticks(300)}}
	g.Add(first, last)
	if server, _ := g.Usages(1000); g.Same || server.Cores != 0.2 || server.MicrosPerItem != 2000 {
		t.Errorf("restarted in between: %+v, one process: %t", server, g.Same)
	}
}

// TestCountersOfAServerStartedAnew restarts a server, and expects that its counters are not subtracted across the
// restart.
func TestCountersOfAServerStartedAnew(t *testing.T) {
	before := map[string]float64{"muster_a_total": 100, "muster_b_total": 100, "muster_gauge": 5}
	after := map[string]float64{"muster_a_total": 130, "muster_b_total": 20, "muster_gauge": 3, "go_threads": 9}
	g := &Gained{}
	g.Add(SoFar{Metrics: before}, SoFar{At: time.Second, Metrics: after})
	d := g.Shown()
	if !g.Anew {
		t.Error("nobody saw that it was another server")
	}
	gone := &Gained{}
	gone.Add(SoFar{Metrics: map[string]float64{"muster_agents_x_count": 5}}, SoFar{At: time.Second, Metrics: map[string]float64{"muster_agents_x_count": 4}})
	if gone.Anew || gone.Metrics["muster_agents_x_count"] != 4 {
		t.Errorf("agents that went are no start of the server: %+v", gone)
	}
	if d["muster_a_total"] != 30 || d["muster_b_total"] != 20 || d["muster_gauge"] != 3 || len(d) != 3 {
		t.Errorf("%v", d)
	}
}

// TestLoadersElsewhereAreNotOfThisMachine expects that the machine's share of CPU time counts only the loaders on it.
func TestLoadersElsewhereAreNotOfThisMachine(t *testing.T) {
	g := &Gained{}
	g.Add(SoFar{}, SoFar{At: 10e9, Loader: Process{CPU: 2e9, RSS: 100}})
	g.Join([]Other{{Here: true, CPU: 3e9, RSS: 10}, {CPU: 5e9, RSS: 1}})
	_, all := g.Usages(1_000_000)
	if all.Cores != 1 || all.Here() != 0.5 || all.RSS != 111 || all.MicrosPerItem != 10 {
		t.Errorf("%+v", all)
	}
}

// TestLockShare lets goroutines wait for one mutex, and expects the wait as a share of the processors' time.
func TestLockShare(t *testing.T) {
	for _, c := range []struct{ wait, span, processors, want float64 }{{1, 10, 2, 0.05}, {40, 10, 2, 2}, {1, 0, 2, 0}, {1, 10, 0, 0}, {0, 10, 2, 0}} {
		if got := LockShare(c.wait, c.span, c.processors); got != c.want {
			t.Errorf("%+v: %g", c, got)
		}
	}
	before := lockWait()
	var mu sync.Mutex
	var all sync.WaitGroup
	for began := time.Now(); lockWait()-before < 10*time.Millisecond; {
		if time.Since(began) > time.Minute {
			t.Fatalf("eight goroutines waited for each other for a minute, and %s of it is known", lockWait()-before)
		}
		for range 8 {
			all.Go(func() {
				mu.Lock()
				defer mu.Unlock()
				for until := time.Now().Add(time.Millisecond); time.Now().Before(until); {
				}
			})
		}
		all.Wait()
	}
	g := &Gained{}
	at := func(seconds int, wait float64) SoFar {
		return SoFar{At: time.Duration(seconds) * time.Second, Waited: time.Duration(seconds) * time.Second, Metrics: map[string]float64{WaitMetric: wait, ProcessorsMetric: 4}}
	}
	g.Add(at(0, 3), at(10, 5))
	g.Add(at(20, 9), at(30, 11))
	if server, loader := g.Usages(1); server.LockShare != 4./20/4 || loader.LockShare <= 0 {
		t.Errorf("server %+v, loader %+v", server, loader)
	}
}
