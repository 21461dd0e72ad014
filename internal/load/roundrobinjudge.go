package load

import (
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// lull is for how long before the end of what is played an interval has to begin so that it
// surely had its run, ns: nobody waits for turns that come later.
const lull = int64(1e9)

// turned judges the turns, once all is acknowledged.
func (r *run) turned(d *faultScript) *report.Turned {
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
				r.judgeSeconds(t, k, n)
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
func (r *run) judgeRound(t *report.Turned, d *faultScript, c *class, k *playing, n int) {
	b, x := k.robin, &k.robin.rounds[n]
	begin, zero, end := r.begin.Load(), r.present().zero(), r.present().end()
	base := b.first(r, n, begin)
	x.mu.Lock()
	marks, stuck := slices.Clone(x.marks), maps.Clone(x.stuck) // agents' locks are taken before this one
	x.mu.Unlock()
	for slot := b.first(r, n, zero); ; slot++ {
		from := b.begins(r, n, slot)
		to := from + b.interval
		if from >= end {
			return
		}
		m := mark(0)
		if i := slot - base; i < int64(len(marks)) {
			m = marks[i]
		}
		t.Due++
		if ran := uint64(m & runsMost); ran > 0 {
			t.Ran++
			t.Again += ran - 1
			continue
		}
		s, struck := stuck[slot]
		if m&given != 0 && !struck { // who had it lost it, as a machine that dies: the ledger knows
			s, struck = stall{from, 1}, true
		}
		switch {
		case struck && min(to, end) <= s.since+s.times*b.patience+lull:
			t.Passed++
		case from > end-lull, d.serverGone(from-b.interval, to), !c.attended(r, from, to):
			t.Unjudged++
		default:
			if t.Missed++; t.Missed == 1 {
				t.Example = fmt.Sprintf("%s, at %.1f s", k.of(n), r.since(from))
			}
		}
	}
}

// judgeSeconds judges the turns of one round that somebody else had already: who lost his session
// meanwhile, or had just got it, may have lost the turn with it.
func (r *run) judgeSeconds(t *report.Turned, k *playing, n int) {
	x := &k.robin.rounds[n]
	x.mu.Lock()
	list := slices.Clone(x.twice) // agents' locks are taken before this one
	x.mu.Unlock()
	for _, s := range list {
		if !s.first.attended(s.before-judge.Slack, s.at+lull) {
			if s.by != s.first {
				r.taken.note(s.at - s.since)
			}
			continue
		}
		if t.Twice++; t.Twice == 1 {
			t.Second = fmt.Sprintf("%s, at %.1f s: to %s, and %.1f s later to %s", k.of(n), r.since(s.before), s.first.called(), float64(s.at-s.before)/1e9, s.by.called())
		}
	}
}

// of is a check with whom its n-th round is about.
func (k *playing) of(n int) string {
	if k.about == nil {
		return k.full
	}
	return k.full + " about " + k.about.names[n]
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
	return slices.ContainsFunc(a.present(), func(s observe.Stay) bool { return s.From <= from && s.To >= to })
}

// serverGone is serverAway for who holds no lock.
func (d *faultScript) serverGone(from, to int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.serverAway(from, to)
}
