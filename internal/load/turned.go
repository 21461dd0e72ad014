package load

import "fmt"

// Turned is what became of the turns of checks with roundRobin, in the intervals that began
// while it was measured.
type Turned struct {
	Due      uint64  `json:"due"`                // intervals, of each check and proxy node
	Ran      uint64  `json:"ran"`                // that had a run which was acknowledged
	Again    uint64  `json:"again,omitempty"`    // runs beyond one: another had taken over, and both ran it
	Passed   uint64  `json:"passed,omitempty"`   // that had none, and were over before another had to have the turn
	Unjudged uint64  `json:"unjudged,omitempty"` // that had none while the script had the server away, or no agent was there
	Missed   uint64  `json:"missed,omitempty"`   // that had none, and should have had one
	Example  string  `json:"example,omitempty"`  // the first of those
	Taken    uint64  `json:"taken,omitempty"`    // turns that another agent had because who was given them first gave no result
	Took     Latency `json:"tookMs,omitzero"`    // from when they were given first until the other had them
}

// lull is for how long before the end of what is played an interval has to begin so that it
// surely had its run, ns: nobody waits for turns that come later.
const lull = int64(1e9)

// turned judges the turns, once all is acknowledged.
func (r *run) turned(d *drama) *Turned {
	if !r.cfg.Scenario.Turns() {
		return nil
	}
	t := &Turned{}
	for _, c := range r.classes {
		for i := range c.checks {
			k := &c.checks[i]
			if k.robin == nil || k.robin.phases == nil {
				continue
			}
			for n := range k.robin.rounds {
				t.round(r, d, c, k, n)
			}
		}
	}
	r.taken.mu.Lock()
	defer r.taken.mu.Unlock()
	if t.Taken = uint64(r.taken.h.TotalCount()); t.Taken > 0 {
		t.Took = latency(r.taken.h)
	}
	return t
}

// round judges one round's.
func (t *Turned) round(r *run, d *drama, c *class, k *playing, n int) {
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

// String is the row of the summary.
func (t *Turned) String() string {
	text := fmt.Sprintf("%d due, %d run", t.Due, t.Ran)
	for _, x := range [...]struct {
		n    uint64
		what string
	}{{t.Again, "run again by another"}, {t.Passed, "over before another had it"}, {t.Unjudged, "not judged"}, {t.Missed, "missed"}} {
		if x.n > 0 {
			text += fmt.Sprintf(", %d %s", x.n, x.what)
		}
	}
	if t.Taken > 0 {
		text += fmt.Sprintf("; %d taken over, after p50 %.0f  p99 %.0f  max %.0f ms", t.Taken, t.Took.P50, t.Took.P99, t.Took.Max)
	}
	return text
}
