package schedule

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Runs of one check for many proxy nodes spread over its interval, each at its own place; a
// check on call runs when it is called, and never by itself.
func TestRunsForProxyNodesSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{MaxConcurrent: 8})
		defer w.stop()
		var mu sync.Mutex
		starts := map[model.NodeID][]time.Duration{}
		called := 0
		var jobs []Job
		for id := range model.NodeID(120) {
			jobs = append(jobs, Job{Key: Key{Check: 7, ProxyNode: id + 1}, Interval: time.Minute, Do: func(context.Context) {
				mu.Lock()
				defer mu.Unlock()
				starts[id+1] = append(starts[id+1], time.Since(w.began))
			}})
		}
		jobs = append(jobs, Job{Key: Key{Check: 8, ProxyNode: 5}, Interval: time.Second, OnRequest: true, Do: func(context.Context) {
			mu.Lock()
			defer mu.Unlock()
			called++
		}})
		w.apply(jobs...)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		mu.Lock()
		if called != 0 {
			t.Errorf("a check on call ran %d times by itself", called)
		}
		inTenth := map[time.Duration]int{}
		for id, runs := range starts {
			last := runs[len(runs)-1]
			if before := runs[len(runs)-2]; last-before != time.Minute {
				t.Errorf("node %d: %v apart", id, last-before)
			}
			inTenth[last%time.Minute/(6*time.Second)]++
		}
		for i := range time.Duration(10) {
			if n := inTenth[i]; len(starts) != 120 || n < 4 || n > 24 {
				t.Errorf("%d of %d runs in the %d. tenth of the minute", n, len(starts), i+1)
			}
		}
		mu.Unlock()
		if !w.RunNow(Key{Check: 8, ProxyNode: 5}) || w.RunNow(Key{Check: 8}) || w.RunNow(Key{Check: 8, ProxyNode: 6}) {
			t.Error("who is called is not who answers")
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if called != 1 {
			t.Errorf("called once, ran %d times", called)
		}
	})
}
