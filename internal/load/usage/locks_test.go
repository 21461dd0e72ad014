package usage

import (
	"sync"
	"testing"
	"time"
)

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
