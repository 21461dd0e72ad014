package schedule

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/when"
)

var node = uuid.MustParse("6b1b36a5-2a4c-4d6c-8f0e-2f7f7b1f9a01")

// testScheduler is a Scheduler under simulated time. The test moves its wall clock and its boot clock.
type testScheduler struct {
	*Scheduler
	t             *testing.T
	mu            sync.Mutex
	began         time.Time
	wallClockMove time.Duration // the sum of the moves of the wall clock
	sleepTime     time.Duration // time that the machine slept: the boot clock is ahead of timers
	starts        map[model.CheckID][]time.Duration
	stop          func()
}

// startScheduler starts a Scheduler for a test, on a simulated machine that has just booted.
func startScheduler(t *testing.T, cfg Config) *testScheduler {
	return startSchedulerBootedAt(t, cfg, time.Now())
}

// startSchedulerBootedAt starts a Scheduler for a test, on a simulated machine that booted at the given time.
func startSchedulerBootedAt(t *testing.T, cfg Config, booted time.Time) *testScheduler {
	w := &testScheduler{t: t, began: booted, starts: map[model.CheckID][]time.Duration{}}
	cfg.Node = node
	cfg.Boot = w.bootTime
	cfg.Now = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Now().Add(w.wallClockMove + w.sleepTime)
	}
	w.Scheduler = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
	return w
}

// bootTime returns the time since the simulated machine's boot.
func (w *testScheduler) bootTime() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.began) + w.sleepTime + 1000*time.Hour
}

// recordingJob returns a simulated check that records its start times and then runs for the duration `takes`.
// It is called in a bubble.
func (w *testScheduler) recordingJob(id model.CheckID, interval, takes time.Duration) Job {
	return Job{Key: Key{Check: id}, Interval: interval, Do: func(ctx context.Context) {
		w.mu.Lock()
		w.starts[id] = append(w.starts[id], time.Since(w.began))
		w.mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
	}}
}

// setJobs replaces the test's scheduled checks by the given jobs.
func (w *testScheduler) setJobs(jobs ...Job) {
	w.t.Helper()
	if err := w.Set(jobs); err != nil {
		w.t.Fatal(err)
	}
}

// TestOneShotJobRunsAfterEachSet expects a one-shot job to run soon after each Set. Otherwise the job runs on request
// alone.
func TestOneShotJobRunsAfterEachSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{FirstWithin: 10 * time.Second})
		defer w.stop()
		job := w.recordingJob(5, 0, time.Minute)
		job.OneShot = true
		w.setJobs(job)
		time.Sleep(11 * time.Second)
		w.setJobs(job) // while it runs
		time.Sleep(time.Hour)
		if got := w.startTimes(5); len(got) != 1 || got[0] > 10*time.Second {
			t.Fatalf("starts at %v, want one", got)
		}
		w.setJobs(job)
		time.Sleep(time.Hour)
		job.OneShot, job.OnRequest = false, true
		w.setJobs(job)
		time.Sleep(time.Hour)
		if got := w.startTimes(5); len(got) != 2 {
			t.Fatalf("starts at %v, want two", got)
		}
		w.RunNow(Key{Check: 5})
		time.Sleep(time.Hour)
		if got := w.startTimes(5); len(got) != 3 {
			t.Fatalf("starts at %v, want three", got)
		}
	})
}

// startTimes returns the recorded start times of a check.
func (w *testScheduler) startTimes(id model.CheckID) []time.Duration {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Duration(nil), w.starts[id]...)
}

// TestCheckStartsSpreadAndKeepTheirPhase schedules 60 checks, and expects their first runs to spread over the
// interval. Later runs follow exactly one interval apart.
func TestCheckStartsSpreadAndKeepTheirPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{MaxConcurrent: 4})
		defer w.stop()
		var jobs []Job
		for id := range model.CheckID(60) {
			jobs = append(jobs, w.recordingJob(id+10, time.Minute, 10*time.Millisecond))
		}
		w.setJobs(jobs...)
		time.Sleep(10 * time.Second)
		for _, j := range jobs {
			if n := len(w.startTimes(j.Check)); n < 1 || n > 2 {
				t.Fatalf("check %d ran %d times in the first 10 s", j.Check, n)
			}
		}
		time.Sleep(10 * time.Minute)
		seconds := map[time.Duration]int{}
		for _, j := range jobs {
			runs := w.startTimes(j.Check)
			late := runs[len(runs)-9:]
			for i := 1; i < len(late); i++ {
				if gap := late[i] - late[i-1]; gap != time.Minute {
					t.Fatalf("check %d: gap of %v", j.Check, gap)
				}
			}
			seconds[late[0]%time.Minute/time.Second]++
		}
		for second, n := range seconds {
			if n > 6 {
				t.Errorf("%d of 60 checks start in second %v", n, second)
			}
		}
		before := w.startTimes(10)
		w.setJobs(w.recordingJob(10, time.Minute, time.Second)) // a new definition; the others go
		time.Sleep(time.Minute)
		after := w.startTimes(10)
		if len(after) != len(before)+1 || after[len(before)]-before[len(before)-1] != time.Minute {
			t.Errorf("phase was not kept: %v then %v", before[len(before)-2:], after[len(before):])
		}
		if n := w.Stats().Jobs; n != 1 {
			t.Errorf("%d jobs left", n)
		}
	})
}

// TestOneOffsetRunsChecksInOrder expects checks of one offset to run in the order of their ids. Each runs once
// a minute.
func TestOneOffsetRunsChecksInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{MaxConcurrent: 1, OneOffset: true})
		defer w.stop()
		var jobs []Job
		for id := range model.CheckID(60) {
			jobs = append(jobs, w.recordingJob(70-id, time.Minute, 10*time.Millisecond))
		}
		w.setJobs(jobs...)
		time.Sleep(10 * time.Minute)
		first := w.startTimes(11)
		last := first[len(first)-1]
		for id := range model.CheckID(60) {
			runs := w.startTimes(id + 11)
			if got, want := runs[len(runs)-1], last+time.Duration(id)*10*time.Millisecond; got != want {
				t.Fatalf("check %d ran last at %v, not %v", id+11, got, want)
			}
		}
		if gap := last - first[len(first)-2]; gap != time.Minute {
			t.Errorf("gap of %v", gap)
		}
	})
}

// TestOneOffsetStarvesNoCheck schedules checks that together take three intervals. Each runs at least
// three quarters as often as the mean.
func TestOneOffsetStarvesNoCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{MaxConcurrent: 1, OneOffset: true})
		defer w.stop()
		var jobs []Job
		for id := range model.CheckID(60) {
			jobs = append(jobs, w.recordingJob(id, 10*time.Second, 500*time.Millisecond))
		}
		w.setJobs(jobs...)
		time.Sleep(30 * time.Minute)
		for id := range model.CheckID(60) {
			if n := len(w.startTimes(id)); n < 45 { // 60 on average
				t.Errorf("check %d ran %d times in 30 minutes", id, n)
			}
		}
	})
}

// TestChecksKeepTheirPhaseAfterAgentRestart restarts the scheduler, and expects each check at the same second of the
// minute.
func TestChecksKeepTheirPhaseAfterAgentRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		booted := time.Now()
		var grids []time.Duration
		for range 2 {
			w := startSchedulerBootedAt(t, Config{}, booted)
			w.setJobs(w.recordingJob(7, time.Minute, 0))
			time.Sleep(3 * time.Minute)
			runs := w.startTimes(7)
			grids = append(grids, runs[len(runs)-1]%time.Minute)
			w.stop()
			time.Sleep(17 * time.Second)
		}
		if grids[0] != grids[1] {
			t.Errorf("phases differ: %v", grids)
		}
	})
}

// TestRunsOfACheckDoNotOverlap runs checks that last longer than their interval, and expects no overlap. At most
// MaxConcurrent checks may run at once.
func TestRunsOfACheckDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{MaxConcurrent: 2})
		defer w.stop()
		var mu sync.Mutex
		going, most, own := 0, 0, map[model.CheckID]int{}
		var jobs []Job
		for id := range model.CheckID(6) {
			jobs = append(jobs, Job{Key: Key{Check: id}, Interval: 10 * time.Second, Do: func(context.Context) {
				mu.Lock()
				going++
				own[id]++
				most = max(most, going)
				if own[id] > 1 {
					t.Errorf("check %d runs twice at once", id)
				}
				mu.Unlock()
				time.Sleep(15 * time.Second)
				mu.Lock()
				going--
				own[id]--
				mu.Unlock()
			}})
		}
		w.setJobs(jobs...)
		time.Sleep(5 * time.Minute)
		s := w.Stats()
		mu.Lock()
		defer mu.Unlock()
		if most != 2 || s.Skipped == 0 || s.Late == 0 || s.Running != 2 {
			t.Errorf("most at once %d, %+v", most, s)
		}
	})
}

// TestWallClockJumpsDoNotChangeIntervals sets the wall clock, and expects checks with an interval to keep their rhythm.
// Cron checks follow the clock.
func TestWallClockJumpsDoNotChangeIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{})
		defer w.stop()
		cron := w.recordingJob(2, 0, 0)
		cron.Cron, cron.Zone = "0 * * * *", "UTC"
		w.setJobs(w.recordingJob(1, time.Minute, 0), cron) // the bubble begins at midnight UTC
		for _, jump := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
			time.Sleep(10 * time.Minute)
			w.mu.Lock()
			w.wallClockMove += jump
			w.mu.Unlock()
			before := len(w.startTimes(1))
			time.Sleep(10 * time.Minute)
			if n := len(w.startTimes(1)) - before; n != 10 {
				t.Errorf("%d runs in 10 minutes after a jump of %v", n, jump)
			}
		}
		// Wall: 0:00→0:10, 1:10 (one passed tick runs once) →1:30, 23:30 → 23:50, 0:50 (again one) → 1:00.
		if runs := w.startTimes(2); len(runs) != 3 {
			t.Errorf("cron ran at %v", runs)
		}
	})
}

// TestCalendarRunsSpreadOverTheirSplay expects a cron check to run a fixed time after each cron time. The node decides
// this offset. No first run is early.
func TestCalendarRunsSpreadOverTheirSplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{})
		defer w.stop()
		cron := w.recordingJob(2, 0, 0)
		cron.Cron, cron.Zone, cron.Splay = "0 * * * *", "UTC", 30*time.Minute
		w.setJobs(cron) // the bubble begins at midnight UTC
		offset := when.Phase(node, 2, cron.Splay)
		time.Sleep(3 * time.Hour)
		runs := w.startTimes(2)
		if len(runs) != 3 || offset == 0 {
			t.Fatalf("runs at %v, offset %s", runs, offset)
		}
		for i, at := range runs {
			if want := time.Duration(i)*time.Hour + offset; at != want {
				t.Errorf("run %d at %s, want %s", i, at, want)
			}
		}
	})
}

// TestSleepOfTheMachineCausesNoBurstOfRuns suspends the machine for hours, and expects the normal rate of runs
// afterwards. Missed runs are only counted.
func TestSleepOfTheMachineCausesNoBurstOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{})
		defer w.stop()
		w.setJobs(w.recordingJob(1, time.Minute, 0))
		time.Sleep(5 * time.Minute)
		before := len(w.startTimes(1))
		w.mu.Lock()
		w.sleepTime = 8 * time.Hour // timers stood still, the boot clock did not
		w.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if n := len(w.startTimes(1)) - before; n < 5 || n > 6 {
			t.Errorf("%d runs in the 5 minutes after a sleep", n)
		}
		if m := w.Stats().Missed; m < 478 || m > 480 {
			t.Errorf("the scheduler counted %d missed runs", m)
		}
	})
}

// TestRunNowStartsAtOnceAndStopEndsRuns requests runs of daily checks, and expects each run to start immediately. A
// stop of the scheduler cancels running checks.
func TestRunNowStartsAtOnceAndStopEndsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{Grace: 3 * time.Second})
		w.setJobs(w.recordingJob(1, 24*time.Hour, time.Hour))
		time.Sleep(11 * time.Second)
		if n := len(w.startTimes(1)); n != 1 {
			t.Fatalf("a new daily check ran %d times within 11 s", n)
		}
		if !w.RunNow(Key{Check: 1}) || w.RunNow(Key{Check: 9}) {
			t.Error("RunNow knows an unknown check, or does not know a known one")
		}
		if n := len(w.startTimes(1)); n != 1 || w.Stats().Skipped != 1 {
			t.Error("RunNow started a check that was running")
		}
		began := time.Now()
		w.stop() // the run would take an hour: it is ended after the grace
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("stop took %v", took)
		}
	})
}

// TestRunAgainStartsAfterTheCurrentRun asks twice for another run of a running check, and expects one more run.
func TestRunAgainStartsAfterTheCurrentRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{})
		w.setJobs(w.recordingJob(1, 24*time.Hour, time.Minute))
		time.Sleep(11 * time.Second)
		w.RunAgain(Key{Check: 1})
		w.RunAgain(Key{Check: 1})
		if n := len(w.startTimes(1)); n != 1 {
			t.Fatalf("%d runs at once", n)
		}
		time.Sleep(5 * time.Minute)
		if list := w.startTimes(1); len(list) != 2 {
			t.Errorf("runs at %v, want one more", list)
		}
		w.RunAgain(Key{Check: 1})
		time.Sleep(2 * time.Minute)
		if n := len(w.startTimes(1)); n != 3 {
			t.Errorf("%d runs, want 3: the check was idle", n)
		}
		w.stop()
	})
}

// BenchmarkRunDue measures the time to start 1,000 due checks.
func BenchmarkRunDue(b *testing.B) {
	s := New(Config{Node: node})
	var jobs []Job
	for id := range model.CheckID(1000) {
		jobs = append(jobs, Job{Key: Key{Check: id}, Interval: time.Hour, Do: func(context.Context) {}})
	}
	testenv.NoError(b, s.Set(jobs))
	b.ReportAllocs()
	for b.Loop() {
		s.runDue()
	}
	b.ReportMetric(float64(len(jobs)), "checks")
}

// TestPausedChecksDoNotRunButKeepTheirPhase pauses a check, and expects only requested runs. After the pause, the
// check runs at the same offset within its interval as before.
func TestPausedChecksDoNotRunButKeepTheirPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{})
		var held atomic.Bool
		job := w.recordingJob(1, time.Minute, time.Second)
		job.Paused = func() bool { return held.Load() }
		testenv.NoError(t, w.Set([]Job{job}))
		time.Sleep(5 * time.Minute)
		before := len(w.startTimes(1))
		held.Store(true)
		time.Sleep(10 * time.Minute)
		if got := len(w.startTimes(1)); got != before || before < 5 {
			t.Errorf("%d runs, then %d", before, got)
		}
		if !w.RunNow(Key{Check: 1}) {
			t.Error("RunNow does not start a paused check")
		}
		time.Sleep(2 * time.Second)
		if got := len(w.startTimes(1)); got != before+1 {
			t.Errorf("%d runs after one was asked for", got)
		}
		held.Store(false)
		time.Sleep(3 * time.Minute)
		list := w.startTimes(1)
		if len(list) < before+3 || (list[len(list)-1]-list[before-1])%time.Minute != 0 {
			t.Errorf("runs at %v", list)
		}
		if held := w.Stats().Paused; held != 10 {
			t.Errorf("the scheduler counted %d paused runs", held)
		}
		w.stop()
	})
}

// TestRunsForProxyNodesSpread runs one check for several proxy nodes (nodes without an agent), and expects different
// start times. A check with OnRequest runs only by RunNow.
func TestRunsForProxyNodesSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startScheduler(t, Config{MaxConcurrent: 8})
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
		w.setJobs(jobs...)
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
			t.Error("RunNow started another proxy node than the requested one")
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if called != 1 {
			t.Errorf("called once, ran %d times", called)
		}
	})
}
