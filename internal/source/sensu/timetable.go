package sensu

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/pause"
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
		if pause.For(ctx, minSleep) != nil { // new jobs wait as long as others
			return
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

const (
	// A message is most of the cost of a run. So runs of an agent that lie within maxAdvance are requested together, at
	// most maxParallel of them, so that the machine does not start too many at once.
	maxAdvance  = 5 * time.Second
	maxParallel = 8
)

// slot is the time of runs: once each interval, at this offset, by Server.boot.
type slot struct{ interval, at time.Duration }

// assignSlots gives each job its slot: the slot that muster-agent would use, or up to maxAdvance earlier the slot of
// another job whose interval divides this one's. So both are requested together each time, and the time between two runs
// is the interval.
func assignSlots(node uuid.UUID, jobs []*job) {
	// The first job in this order leaders the others to its slot. An offset per node keeps the leaders of a fleet from all
	// being at the beginning of intervals.
	offset := time.Duration(binary.BigEndian.Uint32(node[:])) * time.Microsecond
	order := make([]*job, 0, len(jobs))
	for _, j := range jobs {
		if j.recipe.location == nil {
			j.slot = j.phase(node)
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(a, b *job) int {
		i, k := a.interval(), b.interval()
		return cmp.Or(cmp.Compare(i, k), cmp.Compare((a.slot+offset)%i, (b.slot+offset)%k))
	})
	var leaders []slot
	var intervals []time.Duration
	runs := map[slot]int{}
	hasRoom := func(s slot) bool {
		n := 0
		for _, i := range intervals {
			if s.interval%i == 0 {
				n += runs[slot{i, s.at % i}]
			}
		}
		return n < maxParallel
	}
	for _, j := range order {
		own := slot{j.interval(), j.slot}
		to, least := own, maxAdvance
		for _, l := range leaders {
			if own.interval%l.interval != 0 {
				continue
			}
			early := (own.at%l.interval - l.at + l.interval) % l.interval
			shared := slot{own.interval, (own.at - early + own.interval) % own.interval}
			if early < least && hasRoom(shared) {
				to, least = shared, early
			}
		}
		if to == own {
			leaders = append(leaders, own)
		}
		if n := len(intervals); n == 0 || intervals[n-1] != own.interval {
			intervals = append(intervals, own.interval)
		}
		if runs[to]++; runs[to] >= maxParallel {
			leaders = slices.DeleteFunc(leaders, func(l slot) bool { return l == to }) // it is full
		}
		j.slot = to.at
	}
}

// phase returns the offset that muster-agent uses; runs for proxy nodes are spread over the interval, too.
func (j *job) phase(node uuid.UUID) time.Duration {
	for i := range 4 {
		node[i] ^= byte(j.proxy.ID >> (8 * i))
	}
	return when.Phase(node, j.recipe.chunk.Unit, j.interval())
}
