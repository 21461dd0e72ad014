package sensu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestSlotsOfJobsKeepCheckIntervals groups runs of checks into common time slots, and expects each check to
// keep its interval. At most maxParallel runs have one slot, at most maxAdvance early; a timer that runs late
// takes the jobs of two.
func TestSlotsOfJobsKeepCheckIntervals(t *testing.T) {
	for _, c := range []struct {
		intervals []time.Duration
		turns     [2]int // in ten minutes, at least and at most
	}{
		{repeatInterval(1, 5*time.Second), [2]int{120, 120}},
		{repeatInterval(8, 5*time.Second), [2]int{120, 120}},
		{repeatInterval(40, 5*time.Second), [2]int{600, 610}},
		{repeatInterval(8, 2*time.Second), [2]int{300, 300}},
		{repeatInterval(8, 7*time.Second), [2]int{85, 172}},
		{repeatInterval(4, time.Hour), [2]int{0, 4}},
		{slices.Concat(repeatInterval(8, 5*time.Second), repeatInterval(30, time.Minute)), [2]int{120, 600}},
		{slices.Concat(repeatInterval(6, 10*time.Second), repeatInterval(6, 30*time.Second), repeatInterval(6, time.Minute)), [2]int{60, 240}},
		{slices.Concat(repeatInterval(10, 10*time.Second), repeatInterval(10, 30*time.Second), repeatInterval(10, time.Minute)), [2]int{120, 360}},
		{slices.Concat(repeatInterval(1, 20*time.Second), repeatInterval(1, 30*time.Second)), [2]int{30, 50}},
		{slices.Concat(repeatInterval(1, 10*time.Second), repeatInterval(1, 15*time.Second)), [2]int{60, 100}},
		{slices.Concat(repeatInterval(1, 4*time.Second), repeatInterval(1, 5*time.Second)), [2]int{150, 270}},
		{slices.Concat(repeatInterval(2, 4*time.Second), repeatInterval(2, 5*time.Second), repeatInterval(6, 20*time.Second), repeatInterval(6, 30*time.Second), repeatInterval(6, time.Minute)), [2]int{150, 500}},
		{slices.Concat(repeatInterval(2, 10*time.Second), repeatInterval(1, 5*time.Minute), []time.Duration{cronInterval, cronInterval}), [2]int{60, 160}},
	} {
		for node := range byte(20) {
			began := time.Unix(1_000_000, 0)
			now := began
			s := &Server{started: began}
			s.cfg.Now = func() time.Time { return now }
			x := &session{srv: s}
			x.UID = uuid.NewSHA1(uuid.NameSpaceDNS, []byte{node})
			var jobs []*checkJob
			for i, interval := range c.intervals {
				r := &preparedCheck{definition: newCheck(model.DefinitionID(i+1), fmt.Sprint("c", i), "x", func(c *model.CheckDefinition) { c.Interval = interval })}
				if interval == cronInterval {
					r.definition.Interval, r.definition.Cron, r.location = 0, "*/7 * * * *", time.UTC
				}
				jobs = append(jobs, &checkJob{x: x, prepared: r})
			}
			s.setJobs(x, jobs)
			x.timetable.timer.Stop() // the test moves the clock
			for _, j := range jobs {
				if early := (j.slotOffset(x.UID) - j.slot + j.interval()) % j.interval(); j.prepared.location == nil && early >= maxAdvance {
					t.Errorf("%v: %v early", j.interval(), early)
				}
			}
			turns, ran := 0, map[*checkJob]time.Time{}
			for end := s.monotonicTime() + int64(10*time.Minute); x.timetable.at <= end; {
				now = began.Add(time.Duration(x.timetable.at-began.UnixNano()) + timerGrid) // timers run late
				list := s.takeDue(&x.timetable, s.monotonicTime(), nil)
				if len(list) > 0 {
					turns++
				}
				if len(list) > 2*maxParallel { // of two slots
					t.Errorf("%v: %d at once", c.intervals, len(list))
				}
				for _, j := range list {
					if j.prepared.location != nil {
						if late := now.Sub(now.Truncate(time.Minute)); now.UTC().Minute()%7 != 0 || late > 2*timerGrid {
							t.Errorf("cron: at %v", now.UTC())
						}
						continue
					}
					if off := now.Sub(ran[j]) - j.interval(); !ran[j].IsZero() && off.Abs() > 2*timerGrid {
						t.Errorf("%v: %v: the next run %v after the last", c.intervals, j.interval(), now.Sub(ran[j]))
					}
					ran[j] = now
				}
			}
			if turns < c.turns[0] || turns > c.turns[1] {
				t.Errorf("%v: %d turns", c.intervals, turns)
			}
		}
	}
}

// cronInterval stands for a cron expression in place of an interval.
const cronInterval = -1 // in the place of an interval

// repeatInterval returns a list with n times the same check interval.
func repeatInterval(n int, interval time.Duration) (list []time.Duration) {
	for range n {
		list = append(list, interval)
	}
	return list
}

// TestSlotsSpreadRunsAndMachines schedules checks of thousands of proxy nodes, and expects at most eight requests at a
// time. Machines have different time slots.
func TestSlotsSpreadRunsAndMachines(t *testing.T) {
	of := func(node uuid.UUID, n int, interval time.Duration) (jobs []*checkJob) {
		for i := range n {
			jobs = append(jobs, &checkJob{proxy: directory.ProxyNode{ID: model.NodeID(i + 1)}, prepared: &preparedCheck{definition: newCheck(1, "c", "x", func(c *model.CheckDefinition) { c.Interval = interval })}})
		}
		assignSlots(node, jobs)
		return jobs
	}
	slots := map[time.Duration]int{}
	for _, j := range of(uuid.NameSpaceDNS, 8000, time.Minute) {
		slots[j.slot]++
	}
	for at, n := range slots {
		if n > maxParallel {
			t.Errorf("%d at %v", n, at)
		}
	}
	if len(slots) > 1010 {
		t.Errorf("8000 runs in %d parts", len(slots))
	}
	var machines [10]int
	for i := range 2000 {
		machines[of(uuid.NewSHA1(uuid.NameSpaceDNS, []byte(fmt.Sprint(i))), 8, 5*time.Second)[0].slot/(500*time.Millisecond)]++
	}
	if slices.Min(machines[:]) < 150 || slices.Max(machines[:]) > 250 {
		t.Errorf("machines in each half second: %v", machines)
	}
}

// Results that the server reads together, by one system call, are written in one journal commit.
func TestResultsThatArriveTogetherAreOneCommit(t *testing.T) {
	w := newTestServer(t, nil)
	w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x", func(c *model.CheckDefinition) { c.Interval = time.Hour })}
	a := w.connectAgent("web", false)
	r := a.nextRequest()
	var frames []byte
	for range 3 {
		e := &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Check: r.Check, Issued: r.Issued}
		m := a.codec.AppendEvent(sensuwire.NewMessage(sensuwire.TypeEvent), e)[wsconn.Headroom:]
		frame := wsconn.AppendFrame(nil, m) // of a server …
		head := len(frame) - len(m)
		frame[1] |= 0x80 // … with the mask 0: a client's
		frames = append(append(append(frames, frame[:head]...), 0, 0, 0, 0), frame[head:]...)
	}
	testenv.NoError(t, a.conn.Send(frames))
	w.wait("all of them", func() bool { return len(w.signals) == 4 })
	testenv.Until(t, "all are counted", func() bool { return w.count(resultKept) == 3 })
	w.mu.Lock()
	defer w.mu.Unlock()
	batches := 0
	for _, r := range w.records {
		if r.Kind == wire.RecordBatch {
			batches++
		}
	}
	if batches != 2 {
		t.Errorf("%d entries of a keepalive and three results", batches)
	}
}

// TestExceptedTimesRequestNoRuns runs the schedule of a check with excepted times, and expects no runs at excepted
// times. Afterwards the check keeps its offset within the interval.
func TestExceptedTimesRequestNoRuns(t *testing.T) {
	began := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, cron := range []string{"", "*/5 * * * *"} {
		now := began
		s := &Server{started: began}
		s.cfg.Now = func() time.Time { return now }
		x := &session{srv: s, agentIdentity: agentIdentity{namespace: "default"}}
		x.UID = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("web01"))
		prepared := x.prepareCheck(newCheck(1, "load", "x", func(c *model.CheckDefinition) {
			c.Interval, c.Cron, c.TimeZone = 5*time.Minute, cron, "UTC"
			c.Except = []model.Span{window.SpanOfLine("22:00-06:00", "UTC")}
		}), &runTarget{})
		s.setJobs(x, []*checkJob{{x: x, prepared: prepared}})
		x.timetable.timer.Stop() // the test moves the clock
		runs, last := 0, time.Time{}
		for end := began.Add(24 * time.Hour); x.timetable.at <= end.UnixNano(); {
			now = began.Add(time.Duration(x.timetable.at-began.UnixNano()) + timerGrid)
			for range s.takeDue(&x.timetable, s.monotonicTime(), nil) {
				runs++
				if h := now.Hour(); h < 6 || h >= 22 {
					t.Errorf("cron %q: a run at %v", cron, now)
				}
				if off := now.Sub(last) - 5*time.Minute; !last.IsZero() && off.Abs() > 2*timerGrid {
					t.Errorf("cron %q: %v after the run before", cron, now.Sub(last))
				}
				last = now
			}
		}
		if runs < 191 || runs > 193 { // 16 hours, every 5 minutes
			t.Errorf("cron %q: %d runs, want 192", cron, runs)
		}
	}
}
