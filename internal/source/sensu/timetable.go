package sensu

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/when"
)

// timetable orders all sessions by their next due job. One goroutine sleeps until then and hands due jobs to their
// sessions; it never blocks on one.
type timetable struct {
	mu   sync.Mutex
	heap rowHeap
	wake chan struct{}
}

// row is the place of a session in the timetable, whose mu guards it.
type row struct {
	jobs  []*job
	at    int64 // time of the first due job, by Server.boot
	index int   // in the heap
	in    bool  // the heap
	ended bool
}

const (
	// maxCronSleep bounds the wait for a cron check, because the wall clock may be set.
	maxCronSleep = 30 * time.Second

	// minSleep is the shortest sleep of the timetable: jobs that become due meanwhile are requested in one write. Requests
	// have a resolution of one second.
	minSleep = 20 * time.Millisecond
)

// scheduleNew sets the first time of a new job. A check without an event runs within Limits.FirstWithin.
func (s *Server) scheduleNew(j *job, now int64) {
	within := s.cfg.Limits.FirstWithin
	switch {
	case j.recipe.location != nil:
		s.scheduleCron(j, now)
	case j.firstRun && j.recipe.chunk.Interval > within:
		j.at = now + int64(j.slot%within)
	default:
		s.scheduleInterval(j, now)
	}
}

func (j *job) interval() time.Duration {
	interval := j.recipe.chunk.Interval
	if interval <= 0 {
		interval = 5 * time.Minute // of a cron expression that cannot be read, which its result says
	}
	return max(interval, time.Second)
}

func (s *Server) scheduleInterval(j *job, now int64) {
	j.at = int64(when.OnGrid(time.Duration(now), j.interval(), j.slot))
}

func (s *Server) scheduleCron(j *job, now int64) {
	c := j.recipe.chunk
	wall := s.cfg.Now()
	next, err := when.NextCron(c.Cron, j.recipe.location, wall)
	if err != nil { // never, as 30 February
		next = wall.Add(24 * time.Hour)
	}
	j.cronTime = next
	j.at = now + int64(min(next.Sub(wall), maxCronSleep))
}

// setJobs replaces the timed jobs of a session. A job that it had is due at its old time once more, and in its new slot
// from then on.
func (s *Server) setJobs(x *session, jobs []*job) {
	t := &s.timetable
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.row.ended {
		return
	}
	assignSlots(x.UID, jobs)
	now := s.boot()
	for _, j := range jobs {
		if j.at == 0 {
			s.scheduleNew(j, now)
		}
	}
	x.row.jobs = jobs
	x.row.next()
	if !x.row.in {
		heap.Push(&t.heap, x)
	} else {
		heap.Fix(&t.heap, x.row.index)
	}
	if x.row.index == 0 {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// remove removes a session that ends.
func (t *timetable) remove(x *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.row.ended, x.row.jobs = true, nil
	if x.row.in {
		heap.Remove(&t.heap, x.row.index)
	}
}

func (r *row) next() {
	r.at = math.MaxInt64
	for _, j := range r.jobs {
		r.at = min(r.at, j.at)
	}
}

// takeDue appends the due jobs of a session and schedules their next runs.
func (s *Server) takeDue(r *row, now int64, due []*job) []*job {
	for _, j := range r.jobs {
		switch {
		case j.at > now:
			continue
		case j.recipe.location == nil:
			due = append(due, j)
			s.scheduleInterval(j, now)
			continue
		case !s.cfg.Now().Before(j.cronTime):
			due = append(due, j)
		}
		s.scheduleCron(j, now)
	}
	r.next()
	return due
}

func (s *Server) runTimetable(ctx context.Context) {
	t := &s.timetable
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []*job
	for {
		now := s.boot()
		wait := time.Hour
		t.mu.Lock()
		for len(t.heap) > 0 {
			r := &t.heap[0].row
			if r.at > now {
				wait = min(wait, time.Duration(r.at-now))
				break
			}
			due = s.takeDue(r, now, due)
			heap.Fix(&t.heap, 0)
		}
		t.mu.Unlock()
		for from := 0; from < len(due); {
			x, to := due[from].x, from+1
			for to < len(due) && due[to].x == x {
				to++
			}
			x.requestRuns(due[from:to])
			from = to
		}
		clear(due)
		due = due[:0]
		timer.Reset(max(wait, minSleep))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			continue
		case <-t.wake:
		}
		select { // new jobs wait as long as others
		case <-ctx.Done():
			return
		case <-time.After(minSleep):
		}
	}
}

// rowHeap orders sessions by the time of their first due job.
type rowHeap []*session

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].row.at < h[j].row.at }
func (h rowHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].row.index, h[j].row.index = i, j
}
func (h *rowHeap) Push(v any) {
	x := v.(*session)
	x.row.index, x.row.in = len(*h), true
	*h = append(*h, x)
}
func (h *rowHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	x.row.in = false
	return x
}
