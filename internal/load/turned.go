package load

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/load/report"
)

// lull is for how long before the end of what is played an interval has to begin so that it
// surely had its run, ns: nobody waits for turns that come later.
const lull = int64(1e9)

// turned judges the turns, once all is acknowledged.
func (r *run) turned(d *drama) *report.Turned {
	if !r.cfg.Scenario.Turns() {
		return nil
	}
	t := &report.Turned{}
	for _, c := range r.classes {
		for i := range c.checks {
			k := &c.checks[i]
			if k.robin == nil || k.robin.phases == nil {
				continue
			}
			for n := range k.robin.rounds {
				r.judgeRound(t, d, c, k, n)
			}
		}
	}
	r.taken.mu.Lock()
	defer r.taken.mu.Unlock()
	if t.Taken = uint64(r.taken.h.TotalCount()); t.Taken > 0 {
		t.Took = report.LatencyOf(r.taken.h)
	}
	return t
}

// judgeRound judges one round's.
func (r *run) judgeRound(t *report.Turned, d *drama, c *class, k *playing, n int) {
	b, x := k.robin, &k.robin.rounds[n]
	begin, zero, end := r.begin.Load(), r.present().zero(), r.present().end()
	base := b.first(r, n, begin)
	x.mu.Lock()
	defer x.mu.Unlock()
	for slot := b.first(r, n, zero); ; slot++ {
		from := b.begins(r, n, slot)
		to := from + b.interval
		if from >= end {
			return
		}
		m := mark(0)
		if i := slot - base; i < int64(len(x.marks)) {
			m = x.marks[i]
		}
		t.Due++
		if ran := uint64(m & runsMost); ran > 0 {
			t.Ran++
			t.Again += ran - 1
			continue
		}
		s, struck := x.stuck[slot]
		if m&given != 0 && !struck { // who had it lost it, as a machine that dies: the ledger knows
			s, struck = stuck{from, 1}, true
		}
		switch {
		case struck && min(to, end) <= s.since+s.times*b.patience+lull:
			t.Passed++
		case from > end-lull, d.serverGone(from-b.interval, to), !c.attended(r, from, to):
			t.Unjudged++
		default:
			if t.Missed++; t.Missed == 1 {
				who := k.full
				if k.about != nil {
					who += " about " + k.about.names[n]
				}
				t.Example = fmt.Sprintf("%s, at %.1f s", who, r.since(from))
			}
		}
	}
}

// attended says whether any agent of a class had a session for most of a time.
func (c *class) attended(r *run, from, to int64) bool {
	from, to = from+(to-from)/4, to-(to-from)/4
	for _, a := range r.agents {
		if a.class == c && a.attended(from, to) {
			return true
		}
	}
	return false
}

func (a *agent) attended(from, to int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.here > 0 && a.here <= from {
		return true
	}
	for _, s := range a.stays {
		if s.from <= from && s.to >= to {
			return true
		}
	}
	return false
}

// serverGone is serverAway for who holds no lock.
func (d *drama) serverGone(from, to int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.serverAway(from, to)
}
