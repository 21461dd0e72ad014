package sensu

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/when"
)

const (
	// A message costs most of what a run costs. So the runs of an agent that lie within mostEarly
	// go out together, at most mostTogether of them, which is what a machine may start at once.
	mostEarly    = 5 * time.Second
	mostTogether = 8
)

// slot is when runs are due: each interval, at this time within it, by boot.
type slot struct{ interval, at time.Duration }

// together gives each job its slot: the one that it would have on our own agent, or up to
// mostEarly before it where another has its slot whose interval fits this one's a whole number
// of times. So they meet each time, and from run to run it is the interval for each of them.
func together(node uuid.UUID, jobs []*job) {
	// Machines begin at different times: who comes first leads, and all leads of a fleet would
	// come at the beginnings of intervals.
	beside := time.Duration(binary.BigEndian.Uint32(node[:])) * time.Microsecond
	order := make([]*job, 0, len(jobs))
	for _, j := range jobs {
		if j.recipe.location == nil {
			j.slot = j.phase(node)
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(a, b *job) int {
		i, k := a.interval(), b.interval()
		return cmp.Or(cmp.Compare(i, k), cmp.Compare((a.slot+beside)%i, (b.slot+beside)%k))
	})
	var leads []slot
	var intervals []time.Duration
	runs := map[slot]int{}
	room := func(s slot) bool {
		n := 0
		for _, i := range intervals {
			if s.interval%i == 0 {
				n += runs[slot{i, s.at % i}]
			}
		}
		return n < mostTogether
	}
	for _, j := range order {
		own := slot{j.interval(), j.slot}
		to, least := own, mostEarly
		for _, l := range leads {
			if own.interval%l.interval != 0 {
				continue
			}
			early := (own.at%l.interval - l.at + l.interval) % l.interval
			with := slot{own.interval, (own.at - early + own.interval) % own.interval}
			if early < least && room(with) {
				to, least = with, early
			}
		}
		if to == own {
			leads = append(leads, own)
		}
		if n := len(intervals); n == 0 || intervals[n-1] != own.interval {
			intervals = append(intervals, own.interval)
		}
		if runs[to]++; runs[to] >= mostTogether {
			leads = slices.DeleteFunc(leads, func(l slot) bool { return l == to }) // nobody finds room there
		}
		j.slot = to.at
	}
}

// phase is that of our own agents: runs for proxy nodes spread over the interval too.
func (j *job) phase(node uuid.UUID) time.Duration {
	for i := range 4 {
		node[i] ^= byte(j.about.ID >> (8 * i))
	}
	return when.Phase(node, j.recipe.chunk.Unit, j.interval())
}
