package schedule

import (
	"cmp"
	"container/heap"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/when"
)

const (
	lateAfter       = time.Second      // a run that starts later than this after its due time counts as late
	wallClockPeriod = 30 * time.Second // period of reading the wall clock while there are cron checks: somebody may set it
	wallClockJump   = 2 * time.Second  // least move of the wall clock against the boot clock that counts as set
)

// Config has the settings of a Scheduler.
type Config struct {
	Node          uuid.UUID
	MaxConcurrent int                  // default: CPUs, at least 2
	OneOffset     bool                 // all checks of an interval are due at one offset of the node, in the order of their ids
	FirstWithin   time.Duration        // a new check runs once within this; default 10 s
	Boot          func() time.Duration // a clock that never jumps; default: time since New
	Now           func() time.Time     // the wall clock, for cron alone; default time.Now
	Grace         time.Duration        // running commands may take this long to end at a stop; default 5 s
}

// Key identifies a scheduled check by its id and proxy node. Without a proxy node, the check is for the local node.
type Key struct {
	Check     model.CheckID
	ProxyNode model.NodeID
}

// Job is one check to schedule, with its times and the function for its run. A Job replaces the former one with the
// same Key and keeps its phase.
type Job struct {
	Key
	OnRequest bool          // only RunNow starts it
	OneShot   bool          // runs once soon after each Set, else only RunNow starts it
	Interval  time.Duration // zero with Cron
	Cron      string
	Zone      string
	Splay     time.Duration // upper bound of the node's fixed offset after each time of Cron
	Paused    func() bool   // returns whether the check must not run now; nil: it is never paused
	Do        func(context.Context)
}

// Stats has the scheduler's counters since the agent's start, and the numbers of running and scheduled checks
type Stats struct {
	Started uint64 // runs
	Skipped uint64 // due while the previous run of the check still ran or waited
	Late    uint64 // started more than a second after they were due
	Paused  uint64 // due while Job.Paused returned true
	Missed  uint64 // due times passed over because the machine slept
	Running int
	Jobs    int
}

// scheduledJob is a check in the schedule, with its next due time and run state. Scheduler.mu guards it.
type scheduledJob struct {
	job             Job
	location        *time.Location // cron
	phase           time.Duration
	due             time.Duration // on the boot clock
	dueWall         time.Time     // cron
	index           int           // index in dueHeap; -1: the job is not in the heap
	runningOrQueued bool          // the check runs or waits in readyJobs
	again           bool          // the check runs once more after that
	queuedAt        time.Duration // time at which the job became due
	removed         bool
}

// Scheduler starts the checks of one node at their due times.
type Scheduler struct {
	cfg  Config
	wake chan struct{}

	mu        sync.Mutex
	jobs      map[Key]*scheduledJob
	heap      dueHeap
	readyJobs []*scheduledJob // due jobs that wait because MaxConcurrent others run; each job at most once
	hasCron   bool            // some jobs have a cron schedule
	offset    time.Duration
	running   int
	open      bool // Run is active and not stopping
	runCtx    context.Context
	idle      chan struct{} // closed when the last run has ended after the stop
	stats     Stats
}

// New makes a scheduler without checks.
func New(cfg Config) *Scheduler {
	if cfg.MaxConcurrent <= 0 {
		cfg.MaxConcurrent = max(2, runtime.GOMAXPROCS(0))
	}
	cfg.FirstWithin = cmp.Or(cfg.FirstWithin, 10*time.Second)
	if cfg.Boot == nil {
		began := time.Now()
		cfg.Boot = func() time.Duration { return time.Since(began) }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Grace = cmp.Or(cfg.Grace, 5*time.Second)
	s := &Scheduler{cfg: cfg, wake: make(chan struct{}, 1), jobs: map[Key]*scheduledJob{}}
	s.offset = s.wallOffset()
	return s
}

// wallOffset returns the difference between wall clock and boot clock, so that a changed wall clock is noticed.
// It changes only when the wall clock is set.
func (s *Scheduler) wallOffset() time.Duration {
	return time.Duration(s.cfg.Now().UnixNano()) - s.cfg.Boot()
}

// Set replaces the list of scheduled checks by a new list. Those whose id and times stay keep their next run; one
// whose times changed keeps its phase; a run that is going on ends undisturbed.
func (s *Scheduler) Set(jobs []Job) error {
	locations := make([]*time.Location, len(jobs))
	for i, j := range jobs {
		if j.Cron == "" {
			continue
		}
		location, err := when.ParseCron(j.Cron, j.Zone)
		if err != nil {
			return err
		}
		locations[i] = location
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Boot()
	keep := make(map[Key]bool, len(jobs))
	s.hasCron = slices.ContainsFunc(jobs, func(j Job) bool { return j.Cron != "" })
	for i, j := range jobs {
		keep[j.Key] = true
		e, known := s.jobs[j.Key]
		if !known {
			e = &scheduledJob{index: -1}
			s.jobs[j.Key] = e
		}
		old := e.job
		e.job, e.location = j, locations[i]
		switch {
		case known && old.Interval == j.Interval && old.Cron == j.Cron && old.Zone == j.Zone && old.Splay == j.Splay && old.OnRequest == j.OnRequest && !j.OneShot && !old.OneShot:
			continue
		case j.OneShot:
			if e.index < 0 && !e.runningOrQueued {
				e.due = now + s.phaseOf(j.Key, s.cfg.FirstWithin)
				s.placeInHeap(e)
			}
			continue
		case j.OnRequest:
			s.removeFromHeap(e)
			continue
		}
		e.phase = s.phaseOf(j.Key, cmp.Or(j.Interval, j.Splay))
		s.planNextRun(e, now)
		if !known && j.Cron == "" {
			// A new check runs soon, unless its time comes soon anyway.
			e.due = min(e.due, now+s.phaseOf(j.Key, min(j.Interval, s.cfg.FirstWithin)))
		}
		s.placeInHeap(e)
	}
	for key, e := range s.jobs {
		if !keep[key] {
			delete(s.jobs, key)
			e.removed = true
			s.removeFromHeap(e)
		}
	}
	pause.Wake(s.wake)
	return nil
}

// planNextRun computes the next due time of a check.
func (s *Scheduler) planNextRun(e *scheduledJob, now time.Duration) {
	if e.job.Cron == "" {
		e.due = when.NextAtPhase(now, max(e.job.Interval, time.Millisecond), e.phase)
		return
	}
	wall := s.cfg.Now()
	next, err := when.NextCron(e.job.Cron, e.location, wall.Add(-e.phase))
	if err != nil { // never again: 30 February
		next = wall.Add(365 * 24 * time.Hour)
	}
	next = next.Add(e.phase)
	e.dueWall, e.due = next, now+next.Sub(wall)
}

// placeInHeap adds a check to the heap of due times, or moves the check after a change.
func (s *Scheduler) placeInHeap(e *scheduledJob) {
	if e.index >= 0 {
		heap.Fix(&s.heap, e.index)
	} else {
		heap.Push(&s.heap, e)
	}
}

// removeFromHeap removes a check from the heap of due times.
func (s *Scheduler) removeFromHeap(e *scheduledJob) {
	if e.index >= 0 {
		heap.Remove(&s.heap, e.index)
	}
}

// RunNow starts a check immediately, in addition to its regular times. ok is false for an unknown check. A running
// check is not started a second time.
func (s *Scheduler) RunNow(check Key) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.jobs[check]
	if ok && s.open {
		s.enqueueJob(e, s.cfg.Boot())
		s.startReady()
	}
	return ok
}

// RunAgain starts a check immediately, or, if the check is running, once more after that run.
func (s *Scheduler) RunAgain(check Key) {
	s.mu.Lock()
	if e := s.jobs[check]; e != nil {
		e.again = e.runningOrQueued
	}
	s.mu.Unlock()
	s.RunNow(check)
}

// Run starts each check at its due times until ctx ends. It then waits up to Config.Grace for running checks, cancels
// them and returns when the last one has ended.
func (s *Scheduler) Run(ctx context.Context) error {
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.mu.Lock()
	s.open, s.runCtx, s.idle = true, runCtx, make(chan struct{})
	s.mu.Unlock()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.stopRuns(cancel)
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(s.runDue())
	}
}

// runDue queues all checks that are due, and returns the delay until the next check is due.
func (s *Scheduler) runDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Boot()
	s.adjustToClockChange(now)
	for len(s.heap) > 0 && s.heap[0].due <= now {
		e := s.heap[0]
		if e.job.Paused != nil && e.job.Paused() {
			s.stats.Paused++
		} else {
			s.enqueueJob(e, e.due)
		}
		if e.job.OneShot {
			s.removeFromHeap(e)
			continue
		}
		was := e.due
		s.planNextRun(e, now)
		if e.job.Cron == "" {
			s.skipMissed(e, was, now)
		}
		heap.Fix(&s.heap, 0)
	}
	s.startReady()
	sleep := time.Hour
	if s.hasCron {
		sleep = wallClockPeriod
	}
	if len(s.heap) > 0 {
		sleep = min(sleep, s.heap[0].due-s.cfg.Boot())
	}
	return max(sleep, 0)
}

// skipMissed counts and skips the runs that were due while the machine was asleep. After the early first run of a new
// check, it postpones a second run that would follow at once.
func (s *Scheduler) skipMissed(e *scheduledJob, was, now time.Duration) {
	interval := max(e.job.Interval, time.Millisecond)
	s.stats.Missed += uint64(max(0, (now-was)/interval))
	if (was-e.phase)%interval != 0 && e.due-now < e.job.Interval/2 {
		e.due += e.job.Interval
	}
}

// adjustToClockChange computes the due times of cron checks again after the wall clock was set. A check whose time
// the jump passed runs once.
func (s *Scheduler) adjustToClockChange(now time.Duration) {
	if !s.hasCron {
		return
	}
	offset := s.wallOffset()
	if (offset - s.offset).Abs() < wallClockJump {
		return
	}
	s.offset = offset
	wall := s.cfg.Now()
	for _, e := range s.jobs {
		if e.job.Cron == "" || e.job.OnRequest {
			continue
		}
		if e.dueWall.After(wall) {
			s.planNextRun(e, now)
		} else {
			e.due = now
		}
		s.placeInHeap(e)
	}
}

// enqueueJob queues a due check for its start, unless the check already runs or waits.
func (s *Scheduler) enqueueJob(e *scheduledJob, due time.Duration) {
	if e.runningOrQueued {
		s.stats.Skipped++
		return
	}
	e.runningOrQueued, e.queuedAt = true, due
	s.readyJobs = append(s.readyJobs, e)
}

// startReady starts ready checks while fewer than MaxConcurrent run.
func (s *Scheduler) startReady() {
	for s.open && s.running < s.cfg.MaxConcurrent && len(s.readyJobs) > 0 {
		e := s.readyJobs[0]
		s.readyJobs[0] = nil
		s.readyJobs = s.readyJobs[1:]
		if e.removed {
			e.runningOrQueued = false
			continue
		}
		if s.cfg.Boot()-e.queuedAt > lateAfter {
			s.stats.Late++
		}
		s.stats.Started++
		s.running++
		go s.runJob(e, e.job.Do, s.runCtx)
	}
}

// runJob runs one check, and then starts the next check in the queue.
func (s *Scheduler) runJob(e *scheduledJob, do func(context.Context), ctx context.Context) {
	do(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.runningOrQueued = false
	s.running--
	if e.again && s.open && !e.removed {
		s.enqueueJob(e, s.cfg.Boot())
	}
	e.again = false
	s.startReady()
	if !s.open && s.running == 0 {
		close(s.idle)
	}
}

// stopRuns prevents further starts of checks, and cancels running checks after Config.Grace.
func (s *Scheduler) stopRuns(cancel context.CancelFunc) {
	s.mu.Lock()
	s.open = false
	for _, e := range s.readyJobs {
		e.runningOrQueued = false
	}
	s.readyJobs = nil
	if s.running == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	defer time.AfterFunc(s.cfg.Grace, cancel).Stop()
	<-s.idle
}

// Stats returns the counters and gauges of the scheduler.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Running, out.Jobs = s.running, len(s.jobs)
	return out
}

// phaseOf returns the offset of a check's runs within its interval. The offset is a hash, so that checks do not all
// start at the same time. With Config.OneOffset it is a hash of the node alone, so that only nodes differ.
func (s *Scheduler) phaseOf(k Key, interval time.Duration) time.Duration {
	node := s.cfg.Node
	if s.cfg.OneOffset {
		return when.Phase(node, 0, interval)
	}
	for i := range 4 {
		node[i] ^= byte(k.ProxyNode >> (8 * i))
	}
	return when.Phase(node, k.Check, interval)
}

// dueHeap is a heap of scheduled checks, ordered by due time.
type dueHeap []*scheduledJob

// Len returns the number of scheduled checks (heap.Interface).
func (h dueHeap) Len() int { return len(h) }

// Less compares two checks by due time, then by id (heap.Interface).
func (h dueHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].job.Check < h[j].job.Check
}

// Swap exchanges two checks and updates their indexes (heap.Interface).
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends a check (heap.Interface).
func (h *dueHeap) Push(x any) {
	e := x.(*scheduledJob)
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop removes and returns the last check (heap.Interface).
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
