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
