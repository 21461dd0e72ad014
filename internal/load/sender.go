package load

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// tick is the shortest sleep of a sender: fewer wake-ups, at most this much lag.
const tick = 2 * time.Millisecond

// slot is one check of one agent in the timetable.
type slot struct {
	offset int64 // within the interval, ns
	agent  int32
	check  int16
}

// sender plays the timetable of its agents: each check of each agent has its own
// fixed offset within the interval, as with real agents.
type sender struct {
	run      *run
	agents   []*agent
	interval int64  // ns
	slots    []slot // by offset
	linger   dues
}

func newSender(r *run, agents []*agent, interval time.Duration) *sender {
	s := &sender{run: r, agents: agents, interval: int64(interval), slots: make([]slot, 0, len(agents)*r.cfg.Checks)}
	for i, a := range agents {
		for c := range r.cfg.Checks {
			at := share(mix(r.cfg.Seed ^ uint64(a.index)<<16 ^ uint64(c)))
			s.slots = append(s.slots, slot{int64(at * float64(interval)), int32(i), int16(c)})
		}
	}
	slices.SortFunc(s.slots, func(a, b slot) int { return cmp.Compare(a.offset, b.offset) })
	return s
}

// play sends what the timetable says between two instants, in the order in which it
// was meant to happen, and returns when the last frame has left.
func (s *sender) play(ctx context.Context, begin, end int64) {
	next, cycle := 0, begin
	timer := time.NewTimer(0)
	defer timer.Stop()
	now := s.run.now()
	for {
		result, leave := int64(never), int64(never)
		if at := cycle + s.slots[next].offset; at < end {
			result = at
		}
		if len(s.linger) > 0 {
			leave = s.linger[0].due
		}
		at := min(result, leave)
		if at == never {
			return
		}
		if at > now { // the clock is read once for all that is due already
			if ctx.Err() != nil {
				return
			}
			if now = s.run.now(); at > now {
				timer.Reset(max(time.Duration(at-now), tick))
				select {
				case <-ctx.Done():
					return
				case <-timer.C:
				}
				now = s.run.now()
			}
		}
		if leave <= result {
			s.leave()
			continue
		}
		s.result(s.slots[next], result)
		if next++; next == len(s.slots) {
			next, cycle = 0, cycle+s.interval
		}
	}
}

const never = 1<<63 - 1

func (s *sender) result(at slot, intended int64) {
	a := s.agents[at.agent]
	a.mu.Lock()
	defer a.mu.Unlock()
	full, began := a.add(int(at.check), intended)
	if full {
		a.leave(intended)
	} else if began {
		s.linger.push(lingering{a, a.filling, a.filling.first, a.filling.due})
	}
}

func (s *sender) leave() {
	l := s.linger.pop()
	l.agent.mu.Lock()
	defer l.agent.mu.Unlock()
	if l.agent.filling == l.frame && l.frame.first == l.first {
		l.agent.leave(l.due)
	}
}
