package sensu

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
)

// timetable has every job of every session, the next one first. One goroutine sleeps until
// then; what is due it leaves with the session, and waits for nobody.
type timetable struct {
	mu   sync.Mutex
	heap jobHeap
	wake chan struct{}
}

// cronLook is how far ahead a cron check's time is believed: somebody may set the wall clock.
const cronLook = 30 * time.Second

// soon spreads first runs over the time that they may take to come.
func soon(node uuid.UUID, check model.CheckID, within time.Duration) time.Duration {
	return when.Phase(node, check, within)
}

// schedule puts a new job into the timetable; first: nobody has run it, so it comes soon.
func (s *Server) schedule(j *job, first bool) {
	now := s.boot()
	c := j.recipe.chunk
	switch {
	case j.recipe.location != nil:
		s.nextCron(j, now)
	case first && c.Interval > s.cfg.Limits.FirstWithin:
		j.at = now + int64(soon(j.x.uid, c.Check, s.cfg.Limits.FirstWithin))
	default:
		s.nextInterval(j, now)
	}
	t := &s.timetable
	t.mu.Lock()
	if !j.gone {
		heap.Push(&t.heap, j)
	}
	wake := j.index == 0
	t.mu.Unlock()
	if wake {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

func (s *Server) nextInterval(j *job, now int64) {
	c := j.recipe.chunk
	interval := c.Interval
	if interval <= 0 {
		interval = 5 * time.Minute // its cron cannot be read: it reports that
	}
	interval = max(interval, time.Second)
	j.at = int64(when.OnGrid(time.Duration(now), interval, when.Phase(j.x.uid, c.Check, interval)))
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

// drop takes jobs out.
func (t *timetable) drop(jobs []*job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range jobs {
		j.gone = true
		if j.index >= 0 && j.index < len(t.heap) && t.heap[j.index] == j {
			heap.Remove(&t.heap, j.index)
		}
	}
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
			j := t.heap[0]
			if j.at > now {
				wait = time.Duration(j.at - now)
				break
			}
			if j.recipe.location == nil {
				due = append(due, j)
				s.nextInterval(j, now)
			} else {
				if !s.cfg.Now().Before(j.tick) {
					due = append(due, j)
				}
				s.nextCron(j, now)
			}
			heap.Fix(&t.heap, 0)
		}
		t.mu.Unlock()
		for _, j := range due {
			j.x.dueAsk(j)
		}
		clear(due)
		due = due[:0]
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// jobHeap orders jobs by when they are due.
type jobHeap []*job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h jobHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *jobHeap) Push(v any) {
	j := v.(*job)
	j.index = len(*h)
	*h = append(*h, j)
}
func (h *jobHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	j.index = -1
	return j
}
