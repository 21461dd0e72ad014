package play

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/plan"
)

// tick is the shortest sleep of a sender: fewer wake-ups, at most this much lag.
const tick = 2 * time.Millisecond

// slot is one check of one agent in the timetable.
type slot struct {
	offset int64 // within the interval, ns of virtual time
	agent  int32
	check  int16
	about  uint16 // see task
}

// track is a source of results in the order of their virtual times: a lane, or a reel of a recorded stream.
type track interface {
	due() int64                 // virtual time of its next result
	take(s *sender) (what task) // hands that out, and moves on
}

// task is one result of the timetable.
type task struct {
	agent, check int    // the sender's; the agent's
	about        int    // of a check about proxy nodes: which one of them, from 1
	seq          uint64 // see Generator
	first        bool   // of its state; of one about a proxy node the pair knows
}

// lane repeats the slots of all checks with one interval, sorted by offset.
type lane struct {
	interval int64
	slots    []slot
	next     int
	cycle    uint32 // how often it was played
}

// due returns the virtual time of the next slot.
func (l *lane) due() int64 { return int64(l.cycle)*l.interval + l.slots[l.next].offset }

// take returns the result of the next slot and moves on.
func (l *lane) take(s *sender) task {
	at := &l.slots[l.next]
	what := task{agent: int(at.agent), check: int(at.check), about: int(at.about), first: l.cycle == 0}
	if a := s.agents[at.agent]; what.check != signalCheck {
		place := a.class.checks[at.check].first + max(0, int(at.about)-1)
		what.seq = s.fleet.sequence(a.base+uint64(place), l.cycle)
	}
	if l.next++; l.next == len(l.slots) {
		l.next, l.cycle = 0, l.cycle+1
	}
	return what
}

// sender plays the timetable of its agents: each check of each agent has its own
// fixed offset within its interval, as with real agents.
type sender struct {
	fleet  *Fleet
	agents []*agent
	book   *Book
	lanes  []*lane // by interval
	tracks []track // all there are: lanes first
	linger dues
	second int // of the timetable …
	made   uint32
}

// newSender returns a sender with the timetable of its agents.
func newSender(fleet *Fleet, agents []*agent) *sender {
	s := &sender{fleet: fleet, agents: agents, book: NewBook(fleet.Clock, fleet.unit)}
	for i, a := range agents {
		if x := a.class.source; x != nil {
			interval, offsets := x.Timetable(a.member)
			l := s.lane(int64(interval))
			for _, offset := range offsets {
				l.slots = append(l.slots, slot{int64(offset), int32(i), signalCheck, 0})
			}
		}
		if a.class.tape != nil {
			continue
		}
		for c := range a.class.checks {
			every := a.class.checks[c].interval
			switch k := &a.class.checks[c]; {
			case k.robin != nil: // the server gives the runs
			case k.about != nil:
				for about := 1; about <= k.places(); about++ {
					l := s.lane(every)
					l.slots = append(l.slots, slot{int64(fleet.offsetAbout(a.class, a.index, c, about) * float64(every)), int32(i), int16(c), uint16(about)})
				}
			default:
				l := s.lane(every)
				l.slots = append(l.slots, slot{int64(a.offset(c) * float64(every)), int32(i), int16(c), 0})
			}
		}
	}
	for _, l := range s.lanes {
		slices.SortFunc(l.slots, func(a, b slot) int {
			return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.agent, b.agent), cmp.Compare(a.check, b.check), cmp.Compare(a.about, b.about))
		})
	}
	slices.SortFunc(s.lanes, func(a, b *lane) int { return cmp.Compare(a.interval, b.interval) })
	for _, l := range s.lanes {
		s.tracks = append(s.tracks, l)
	}
	s.tracks = append(s.tracks, s.reels()...)
	return s
}

// offset returns the offset of a check within its interval, from 0 to 1.
func (a *agent) offset(c int) float64 { return a.fleet.offset(a.class, a.index, c) }

// offset returns the offset of a check on the agent with this index of a class, from 0 to 1.
func (f *Fleet) offset(class *class, index, c int) float64 {
	return outputs.Share(outputs.Mix(f.cfg.Scenario.Seed ^ uint64(class.number)<<48 ^ uint64(index)<<16 ^ uint64(c)))
}

// lane returns the lane of an interval.
func (s *sender) lane(interval int64) *lane {
	for _, l := range s.lanes {
		if l.interval == interval {
			return l
		}
	}
	l := &lane{interval: interval}
	s.lanes = append(s.lanes, l)
	return l
}

// earliest returns the track with the earliest next result and its virtual time, or nil if there is none.
func (s *sender) earliest() (first track, virtual int64) {
	virtual = plan.Never
	for _, t := range s.tracks {
		if at := t.due(); at < virtual {
			first, virtual = t, at
		}
	}
	return first, virtual
}

// NoticedWithin limits the sleep of a sender, so that it notices another timetable, even if the next result is
// minutes away.
const NoticedWithin = 50 * time.Millisecond

// play sends the results of the timetable in order, and returns when the last frame has left.
func (s *sender) play(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer s.tell() // of a run that is broken off
	now, hint := s.fleet.Now(), 0
	for {
		t, virtual := s.earliest()
		played := s.fleet.Replaced()
		result, leave := int64(plan.Never), int64(plan.Never)
		if t != nil {
			result = s.fleet.Present().Real(virtual, &hint)
		}
		if len(s.linger) > 0 {
			leave = s.linger[0].due
		}
		at := min(result, leave)
		if at == plan.Never {
			s.tell()
			return
		}
		if at > now { // the clock is read once for all that is due already
			if ctx.Err() != nil {
				return
			}
			if now = s.fleet.Now(); at > now {
				s.tell() // who waits has told: the second may be over before the next result
				timer.Reset(min(max(time.Duration(at-now), tick), NoticedWithin))
				select {
				case <-ctx.Done():
					return
				case <-timer.C:
				}
				if now = s.fleet.Now(); at > now+int64(tick) || s.fleet.Replaced() != played {
					hint = 0 // what was due may not be any more
					continue
				}
			}
		}
		if leave <= result {
			s.leave()
			continue
		}
		s.result(t.take(s), result)
	}
}

// result makes a result, unless the machine is dead or its agent hangs.
func (s *sender) result(what task, intended int64) {
	a := s.agents[what.agent]
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fate.dead || a.fate.hung {
		return
	}
	var full, began bool
	if second := s.fleet.SecondOf(intended); what.check == signalCheck {
		s.count(second, a.offers())
		full, began = a.addSignal(intended)
	} else {
		s.count(second, 1)
		full, began = a.add(what, intended, intended)
	}
	if full {
		a.leave(intended)
	} else if began {
		s.linger.push(lingering{a, a.filling, a.filling.first, a.filling.due})
	}
}

// count counts what is due in a second of the timetable.
func (s *sender) count(second int, weight uint32) {
	if second != s.second {
		s.tell()
		s.second = second
	}
	s.made += weight
}

// tell adds the counted results to the book: once per second and before the sender waits, because each call takes a
// lock.
func (s *sender) tell() {
	if s.second >= 0 && s.made > 0 {
		s.book.Offer(s.second, s.made)
	}
	s.made = 0
}

// leave sends the earliest waiting frame, unless it has left.
func (s *sender) leave() {
	l := s.linger.pop()
	l.agent.mu.Lock()
	defer l.agent.mu.Unlock()
	if l.leave() {
		s.linger.push(l)
	}
}
