package schedule

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is due in a time in which a check does not run is passed over, and its phase stays;
// who asks for a run gets it.
func TestNothingRunsInAnExceptedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{})
		var held atomic.Bool
		job := w.job(1, time.Minute, time.Second)
		job.Paused = func() bool { return held.Load() }
		if err := w.Set([]Job{job}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		before := len(w.runs(1))
		held.Store(true)
		time.Sleep(10 * time.Minute)
		if got := len(w.runs(1)); got != before || before < 5 {
			t.Errorf("%d runs, then %d", before, got)
		}
		if !w.RunNow(Key{Check: 1}) {
			t.Error("it cannot be asked for")
		}
		time.Sleep(2 * time.Second)
		if got := len(w.runs(1)); got != before+1 {
			t.Errorf("%d runs after one was asked for", got)
		}
		held.Store(false)
		time.Sleep(3 * time.Minute)
		list := w.runs(1)
		if len(list) < before+3 || (list[len(list)-1]-list[before-1])%time.Minute != 0 {
			t.Errorf("runs at %v", list)
		}
		if held := w.Stats().Held; held != 10 {
			t.Errorf("%d were passed over", held)
		}
		w.stop()
	})
}
