package sensu

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/when"
)

// timetable has every session, the one that has something due next first. One goroutine
// sleeps until then; what is due it leaves with the session, and waits for nobody.
type timetable struct {
	mu   sync.Mutex
	heap rows
	wake chan struct{}
}

// row is a session's place in the timetable, which guards it.
type row struct {
	jobs  []*job
	at    int64 // when the first of them is due, by boot
	index int   // in the heap
	in    bool
	gone  bool
}

const (
	// cronLook is how far ahead a cron check's time is believed: somebody may set the wall clock.
	cronLook = 30 * time.Second

	// tick is how long the timetable sleeps at least: what comes due meanwhile is asked for in
	// one go. A request bears whole seconds.
	tick = 20 * time.Millisecond
)

// first is when a new job is due. One that nobody has run yet comes soon.
func (s *Server) first(j *job, now int64) {
	within := s.cfg.Limits.FirstWithin
	switch {
	case j.recipe.location != nil:
		s.nextCron(j, now)
	case j.unknown && j.recipe.chunk.Interval > within:
		j.at = now + int64(j.slot%within)
	default:
		s.nextInterval(j, now)
	}
}

func (j *job) interval() time.Duration {
	interval := j.recipe.chunk.Interval
	if interval <= 0 {
		interval = 5 * time.Minute // its cron cannot be read: it reports that
	}
	return max(interval, time.Second)
}

func (s *Server) nextInterval(j *job, now int64) {
	j.at = int64(when.OnGrid(time.Duration(now), j.interval(), j.slot))
}

func (s *Server) nextCron(j *job, now int64) {
	c := j.recipe.chunk
	wall := s.cfg.Now()
	tick, err := when.NextCron(c.Cron, j.recipe.location, wall)
	if err != nil { // never, as 30 February
		tick = wall.Add(24 * time.Hour)
	}
	j.tick = tick
	j.at = now + int64(min(tick.Sub(wall), cronLook))
}

// setJobs makes these the jobs of a session. Those that it had stay due when they were; that is
// the last time before they keep to a slot that is another by now.
func (s *Server) setJobs(x *session, jobs []*job) {
	t := &s.timetable
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.row.gone {
		return
	}
	together(x.uid, jobs)
	now := s.boot()
	for _, j := range jobs {
		if j.at == 0 {
			s.first(j, now)
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

// drop takes a session out, for good.
func (t *timetable) drop(x *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.row.gone, x.row.jobs = true, nil
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

// turn appends what a session is to be asked for now, and says when the next is due.
func (s *Server) turn(r *row, now int64, due []*job) []*job {
	for _, j := range r.jobs {
		switch {
		case j.at > now:
			continue
		case j.recipe.location == nil:
			due = append(due, j)
			s.nextInterval(j, now)
			continue
		case !s.cfg.Now().Before(j.tick):
			due = append(due, j)
		}
		s.nextCron(j, now)
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
			due = s.turn(r, now, due)
			heap.Fix(&t.heap, 0)
		}
		t.mu.Unlock()
		for from := 0; from < len(due); {
			x, to := due[from].x, from+1
			for to < len(due) && due[to].x == x {
				to++
			}
			x.dueAsks(due[from:to])
			from = to
		}
		clear(due)
		due = due[:0]
		timer.Reset(max(wait, tick))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			continue
		case <-t.wake:
		}
		select { // who is new waits as long as the others
		case <-ctx.Done():
			return
		case <-time.After(tick):
		}
	}
}

// rows order sessions by when they are due.
type rows []*session

func (h rows) Len() int           { return len(h) }
func (h rows) Less(i, j int) bool { return h[i].row.at < h[j].row.at }
func (h rows) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].row.index, h[j].row.index = i, j
}
func (h *rows) Push(v any) {
	x := v.(*session)
	x.row.index, x.row.in = len(*h), true
	*h = append(*h, x)
}
func (h *rows) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	x.row.in = false
	return x
}
