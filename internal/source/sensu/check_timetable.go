package sensu

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/when"
)

// timetable holds the next run times of a session's checks, and a timer for the earliest. Its timer requests due jobs
// and never blocks on the session.
type timetable struct {
	mu    sync.Mutex // guards the rest, and the timetable's fields of its jobs
	jobs  []*checkJob
	at    int64       // time of the first due job, by Server.monotonicTime; math.MaxInt64: there is none
	timer *time.Timer // runs requestDue; nil: the session has no jobs yet
	ended bool
}

const (
	// maxCronSleep bounds the wait for a cron check, because the wall clock may be set.
	maxCronSleep = 30 * time.Second

	// timerGrid is the step of the times at which timers run, the same for all sessions: a wake-up of the server then
	// requests the jobs of many sessions, and their results arrive together. Requests have a resolution of one second.
	timerGrid = 250 * time.Millisecond
)

// scheduleFirstRun sets when a check that is new in the session runs first. A check without an event runs within
// Limits.FirstWithin.
func (s *Server) scheduleFirstRun(j *checkJob, now int64) {
	within := s.cfg.Limits.FirstWithin
	switch {
	case j.prepared.location != nil:
		s.scheduleCron(j, now)
	case j.firstRun && j.prepared.definition.Interval > within:
		j.at = now + int64(j.slot%within)
	default:
		s.scheduleInterval(j, now)
	}
}

// interval returns the check's interval, at least a second.
func (j *checkJob) interval() time.Duration {
	interval := j.prepared.definition.Interval
	if interval <= 0 {
		interval = 5 * time.Minute // for a cron expression that cannot be read; the result of the check has the reason
	}
	return max(interval, time.Second)
}

// scheduleInterval sets the next run time of a check with an interval.
func (s *Server) scheduleInterval(j *checkJob, now int64) {
	j.at = int64(when.NextAtPhase(time.Duration(now), j.interval(), j.slot))
}

// scheduleCron sets the next run time of a check with a cron expression.
func (s *Server) scheduleCron(j *checkJob, now int64) {
	c := j.prepared.definition
	wall := s.cfg.Now()
	next, err := when.NextCron(c.Cron, j.prepared.location, wall)
	if err != nil { // the cron expression has no next time, such as 30 February
		next = wall.Add(24 * time.Hour)
	}
	j.cronTime = next
	j.at = now + int64(min(next.Sub(wall), maxCronSleep))
}

// setJobs replaces the schedules of the checks that the server asks the session's agent to run. A job whose check the
// session had before runs once more at its old time, and then in its new slot.
func (s *Server) setJobs(x *session, jobs []*checkJob) {
	t := &x.timetable
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	assignSlots(x.UID, jobs)
	now := s.monotonicTime()
	for _, j := range jobs {
		if j.at == 0 {
			s.scheduleFirstRun(j, now)
		}
	}
	t.jobs = jobs
	t.findNextDue()
	if t.timer == nil {
		t.timer = time.AfterFunc(time.Hour, func() { s.requestDue(x) })
	}
	t.startTimer(now)
}

// findNextDue computes the earliest next run time of the checks.
func (t *timetable) findNextDue() {
	t.at = math.MaxInt64
	for _, j := range t.jobs {
		t.at = min(t.at, j.at)
	}
}

// startTimer starts the timer for the earliest next run. The time is rounded up to a multiple of timerGrid. The caller
// holds mu.
func (t *timetable) startTimer(now int64) {
	if len(t.jobs) > 0 {
		step := int64(timerGrid)
		t.timer.Reset(time.Duration((max(t.at, now+1)+step-1)/step*step - now))
	}
}

// stop stops the timer permanently.
func (t *timetable) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.jobs = true, nil
	if t.timer != nil {
		t.timer.Stop()
	}
}

// requestDue asks the agent to run the due checks, and sets the timer for the next due check.
func (s *Server) requestDue(x *session) {
	t := &x.timetable
	t.mu.Lock()
	now := s.monotonicTime()
	due := s.takeDue(t, now, make([]*checkJob, 0, maxParallel))
	t.startTimer(now)
	t.mu.Unlock()
	if len(due) > 0 {
		x.requestRuns(due)
	}
}

// takeDue appends the session's due checks to a list, and sets when each check runs next. A job that is due within its
// check's exceptions does not run; its next time stays on its slot.
func (s *Server) takeDue(t *timetable, now int64, due []*checkJob) []*checkJob {
	wall := s.cfg.Now()
	for _, j := range t.jobs {
		if j.at > now {
			continue
		}
		cron := j.prepared.location != nil
		if _, excepted := j.prepared.except.Active(wall); !excepted && (!cron || !wall.Before(j.cronTime)) {
			due = append(due, j)
		}
		if cron {
			s.scheduleCron(j, now)
		} else {
			s.scheduleInterval(j, now)
		}
	}
	t.findNextDue()
	return due
}

const (
	// A message is most of the cost of a run. So runs of an agent that lie within maxAdvance have one slot, at most
	// maxParallel of them, so that the machine does not start too many at once.
	maxAdvance  = 5 * time.Second
	maxParallel = 8
)

// runSlot is the offset at which a check's runs start within its interval.
type runSlot struct{ interval, at time.Duration }

// assignSlots sets at which offset within its interval each check runs. Checks whose intervals divide each other get
// the same offset. So both are requested together each time, and the time between two runs is the interval.
func assignSlots(node uuid.UUID, jobs []*checkJob) {
	// The first job in this order leads the others to its slot. An offset per node keeps the leaders of a fleet from all
	// being at the beginning of intervals.
	offset := time.Duration(binary.BigEndian.Uint32(node[:])) * time.Microsecond
	order := make([]*checkJob, 0, len(jobs))
	for _, j := range jobs {
		if j.prepared.location == nil {
			j.slot = j.slotOffset(node)
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(a, b *checkJob) int {
		i, k := a.interval(), b.interval()
		return cmp.Or(cmp.Compare(i, k), cmp.Compare((a.slot+offset)%i, (b.slot+offset)%k))
	})
	var leaders []runSlot
	var intervals []time.Duration
	runs := map[runSlot]int{}
	hasRoom := func(s runSlot) bool {
		n := 0
		for _, i := range intervals {
			if s.interval%i == 0 {
				n += runs[runSlot{i, s.at % i}]
			}
		}
		return n < maxParallel
	}
	for _, j := range order {
		own := runSlot{j.interval(), j.slot}
		to, least := own, maxAdvance
		for _, l := range leaders {
			if own.interval%l.interval != 0 {
				continue
			}
			early := (own.at%l.interval - l.at + l.interval) % l.interval
			shared := runSlot{own.interval, (own.at - early + own.interval) % own.interval}
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
			leaders = slices.DeleteFunc(leaders, func(l runSlot) bool { return l == to }) // the slot has no room for more runs
		}
		j.slot = to.at
	}
}

// slotOffset computes, as muster-agent does, at which offset within the interval the check runs. Runs for proxy nodes
// are spread over the interval, too.
func (j *checkJob) slotOffset(node uuid.UUID) time.Duration {
	for i := range 4 {
		node[i] ^= byte(j.proxy.ID >> (8 * i))
	}
	return when.Phase(node, j.prepared.definition.Unit, j.interval())
}
