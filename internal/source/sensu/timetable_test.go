package sensu

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Over some minutes each check has one run for each of its intervals, at most a stretch before
// its time and as long after the last as its interval is, and what goes out together is bounded.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		intervals []time.Duration
		turns     [2]int // in ten minutes, at least and at most
	}{
		{[]time.Duration{5 * time.Second}, [2]int{120, 120}},
		{repeat(8, 5*time.Second), [2]int{120, 125}},
		{repeat(40, 5*time.Second), [2]int{600, 610}},
		{repeat(8, 2*time.Second), [2]int{300, 1200}},
		{repeat(8, 7*time.Second), [2]int{85, 344}},
		{repeat(4, time.Hour), [2]int{0, 4}},
		{append(repeat(8, 5*time.Second), repeat(30, time.Minute)...), [2]int{120, 600}},
		{append(repeat(6, 10*time.Second), append(repeat(6, 30*time.Second), repeat(6, time.Minute)...)...), [2]int{60, 240}},
	} {
		began := time.Unix(1_000_000, 0)
		s := &Server{began: began}
		s.cfg.Now = func() time.Time { return began }
		x := &session{srv: s, uid: uuid.MustParse("5d1c9a0e-6f3b-4c55-9a59-0d6f1c2b7e44")}
		due := map[*job][]int64{} // by its own time
		for i, interval := range c.intervals {
			j := &job{x: x, recipe: &recipe{chunk: check(model.ChunkID(i+1), fmt.Sprint("c", i), "x", func(c *model.Chunk) { c.Interval = interval })}}
			s.nextInterval(j, s.boot())
			x.row.jobs = append(x.row.jobs, j)
			due[j] = []int64{j.at}
		}
		s.timetable.set(x, x.row.jobs)
		turns, ran := 0, map[*job]int64{}
		for end := s.boot() + int64(10*time.Minute); x.row.at <= end; turns++ {
			now := x.row.at + int64(tick) // it is never there in time
			list := s.turn(&x.row, now, nil)
			onTime := 0
			for _, j := range list {
				early := due[j][len(due[j])-1] - now
				if early > int64(j.stretch()) {
					t.Errorf("%v: %v early", j.interval(), time.Duration(early))
				}
				if early <= 0 {
					onTime++
				}
				if next := due[j][len(due[j])-1] + int64(j.interval()); j.at != next {
					t.Errorf("%v: the next is %v beside its time", j.interval(), time.Duration(j.at-next))
				}
				due[j] = append(due[j], j.at)
				if off := now - ran[j] - int64(j.interval()); ran[j] > 0 && (off > int64(2*tick) || off < -int64(2*tick) && len(due[j]) > 3) {
					t.Errorf("%v: the run %d comes %v after the last", j.interval(), len(due[j]), time.Duration(now-ran[j]))
				}
				ran[j] = now
			}
			if onTime == 0 || len(list) > max(onTime, mostTogether) {
				t.Errorf("%d at once, %d of them due", len(list), onTime)
			}
		}
		if turns < c.turns[0] || turns > c.turns[1] {
			t.Errorf("%v: %d turns", c.intervals, turns)
		}
	}
}

func repeat(n int, interval time.Duration) (list []time.Duration) {
	for range n {
		list = append(list, interval)
	}
	return list
}

// What an agent sends together comes to the journal together.
func TestResultsTogether(t *testing.T) {
	w := newWorld(t, nil)
	w.chunks = []*model.Chunk{check(1, "disk", "x", func(c *model.Chunk) { c.Interval = time.Hour })}
	a := w.agent("web", false)
	r := a.next()
	var frames []byte
	for range 3 {
		e := &sensuwire.Event{Timestamp: 1, Entity: &a.x, Check: r.Check, Issued: r.Issued}
		m := a.codec.AppendEvent(sensuwire.Begin(nil, sensuwire.TypeEvent), e)[wsconn.Headroom:]
		frame := wsconn.AppendFrame(nil, m) // of a server …
		head := len(frame) - len(m)
		frame[1] |= 0x80 // … with the mask 0: a client's
		frames = append(append(append(frames, frame[:head]...), 0, 0, 0, 0), frame[head:]...)
	}
	if err := a.conn.Send(frames); err != nil {
		t.Fatal(err)
	}
	w.wait("all of them", func() bool { return len(w.signals) == 4 })
	testenv.Until(t, "all are counted", func() bool { return w.count(kept) == 3 })
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
