package load

import (
	"cmp"

	"github.com/muster-fleet/muster/internal/model"
)

// Alerts of a run that several loaders play come to the one that leads, which follows the machines
// and checks of all. What must come of a failing check follows from acknowledged results, which
// only the loader knows that plays the machine: it hands over how its states turned.

// Flips is how one state turned whose alerts are judged, as its acknowledged results say.
type Flips struct {
	Member int     `json:"member"`
	Check  int     `json:"check"` // of its class
	At     []int64 `json:"at"`    // ns since the beginning: it fails, is well again, fails …
}

// Blow is when a fault struck a loader's machines, and when it was undone; ns since the beginning,
// zero: not.
type Blow struct {
	At    int64 `json:"at"`
	Until int64 `json:"until"`
}

// witnessOwn follows those states of a follower's agents whose alerts the lead judges.
func (r *run) witnessOwn() {
	struck := failing(r.cfg.Scenario)
	for _, a := range r.agents {
		for full, check := range a.class.index {
			if struck[full] && a.class.checks[check].about == nil {
				a.follow(check, &witness{name: a.name + "/" + full, now: r.now})
			}
		}
	}
}

// follow has a witness hear of a check's results.
func (a *agent) follow(check int, w *witness) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ledger.watched == nil {
		a.ledger.watched = map[int16]*witness{}
	}
	a.ledger.watched[int16(check)] = w
}

// flips hands over how the followed states turned, and when faults struck.
func (r *run) flips(m *Measured, script *faultScript) {
	begin := r.begin.Load()
	for member, a := range r.seats {
		if a == nil {
			continue
		}
		a.mu.Lock()
		for check, w := range a.ledger.watched {
			t := Flips{Member: member, Check: int(check)}
			for _, f := range w.must {
				t.At = append(t.At, f.at-begin)
			}
			if len(t.At) > 0 {
				m.Flips = append(m.Flips, t)
			}
		}
		a.mu.Unlock()
	}
	m.Struck = map[int]Blow{}
	for _, x := range script.strikes {
		if x.at > 0 && len(x.agents) > 0 {
			b := Blow{At: x.at - begin}
			if x.until > 0 {
				b.Until = x.until - begin
			}
			m.Struck[x.index] = b
		}
	}
}

// watchTheirs follows the machines, and the checks that faults let fail, of other loaders.
func (al *alarms) watchTheirs(stops bool, struck map[string]bool) {
	r := al.run
	for m, seat := range r.seats {
		if seat != nil || m >= len(r.cfg.Members) {
			continue
		}
		c, name := r.classes[r.cfg.Members[m].Class], r.cfg.Members[m].Name
		if stops {
			al.watchMachine(name)
		}
		for full := range c.index {
			if struck[full] {
				al.witness(name, full)
			}
		}
	}
}

// together takes from the other loaders what their states must have told, and when faults struck
// there: the first moment counts.
func (al *alarms) together(d *faultScript) error {
	r := al.run
	d.mu.Lock()
	defer d.mu.Unlock()
	begin := r.begin.Load()
	for i, m := range r.measured {
		for _, t := range m.Flips {
			w := r.theirWitness(al, t)
			if w == nil || r.seats[t.Member] != nil {
				return model.Errorf(model.Invalid, "%s (loader %d) has results of machine %d, check %d, that nobody asked it for", r.joined[i].Name, r.joined[i].Number+1, t.Member, t.Check)
			}
			w.mu.Lock()
			for n, at := range t.At {
				w.must = append(w.must, flip{at: begin + at, open: n%2 == 0})
			}
			w.mu.Unlock()
		}
		for _, x := range d.strikes {
			b, ok := m.Struck[x.index]
			if !ok {
				continue
			}
			x.at = earlier(x.at, begin+b.At)
			if b.Until > 0 {
				x.until = earlier(x.until, begin+b.Until)
			}
		}
	}
	return nil
}

// earlier is the first of two instants; zero is none.
func earlier(a, b int64) int64 { return min(cmp.Or(a, b), cmp.Or(b, a)) }

// theirWitness is the lead's of another loader's state; nil: there is none.
func (r *run) theirWitness(al *alarms, t Flips) *witness {
	if t.Member < 0 || t.Member >= len(r.cfg.Members) {
		return nil
	}
	c := r.classes[r.cfg.Members[t.Member].Class]
	for full, check := range c.index {
		if check == t.Check {
			return al.checks[r.cfg.Members[t.Member].Name+"/"+full]
		}
	}
	return nil
}

// struckElsewhere are the witnesses of what a fault struck on other loaders.
func (al *alarms) struckElsewhere(x *strike, b *blow) {
	r := al.run
	theirs := map[string]*agent{}
	for _, a := range r.theirs {
		if b.machines {
			theirs[ownName(a.name)] = a
		}
	}
	for _, m := range x.members {
		if m >= len(r.seats) || r.seats[m] != nil {
			continue
		}
		c, name := r.classes[r.cfg.Members[m].Class], r.cfg.Members[m].Name
		if b.machines {
			_, timeout := c.spec.Keepalive.EffectiveTimes()
			b.timeout = int64(timeout)
			b.machine(&al.machines[name].witness, theirs[name])
			continue
		}
		for full, check := range c.index {
			for _, k := range x.checks[c] {
				if k == check {
					b.states = append(b.states, al.checks[name+"/"+full])
				}
			}
		}
	}
}
