package load

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// telling holds the messages that came beside those that had to come. Its lock is taken
// last but for that of what waits beside the results.
type telling struct {
	run *run

	mu      sync.Mutex
	open    map[told]*outstanding // states of which a message is outstanding, on either side
	unclear map[told]bool
	took    observe.Histogram
	sum     report.Notifications
}

// told is the place of an event state, by names as they were when the run began.
type told struct{ node, check string }

// outstanding is what of one state has no counterpart yet: messages that have not come, and
// messages whose result is not acknowledged yet. Openings and closings are apart: deliveries
// may overtake each other.
//
// A message that came before its result was meant is of no result. It is put aside, so that it does
// not stand for one that is missing.
type outstanding struct{ due, came, aside [2][]int64 }

func newTelling(r *run) *telling {
	return &telling{run: r, open: map[told]*outstanding{}, unclear: map[told]bool{}}
}

// teller follows the states of one agent. Guarded by the agent's lock.
type teller struct {
	telling *telling
	agent   *agent
	failing []bool // by check
}

// result is one that was acknowledged, in the order of its state. A nil receiver has nothing
// to tell.
func (t *teller) result(s *sign) {
	if t == nil || s.check < 0 || !t.agent.class.checks[s.check].tells {
		return
	}
	failing := s.status != model.OK
	if failing == t.failing[s.check] {
		return
	}
	t.failing[s.check] = failing
	t.telling.due(told{observe.OwnName(t.agent.name), t.agent.class.checks[s.check].full}, failing, s.intended)
}

func side(open bool) int {
	if open {
		return 1
	}
	return 0
}

// due notes that a message has to come for what was meant at an instant.
func (t *telling) due(of told, open bool, intended int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unclear[of] {
		return
	}
	t.sum.Due++
	w, k := t.of(of), side(open)
	for len(w.came[k]) > 0 && w.came[k][0] < intended-judge.Early {
		w.aside[k], w.came[k] = append(w.aside[k], w.came[k][0]), w.came[k][1:]
	}
	if came := w.came[k]; len(came) > 0 {
		t.time(intended, came[0])
		w.came[k] = came[1:]
		t.rest(of, w)
		return
	}
	w.due[k] = append(w.due[k], intended)
}

// came notes a message.
func (t *telling) came(of told, open bool, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unclear[of] {
		return
	}
	w, k := t.of(of), side(open)
	if due := w.due[k]; len(due) > 0 {
		t.time(due[0], at)
		w.due[k] = due[1:]
		t.rest(of, w)
		return
	}
	w.came[k] = append(w.came[k], at)
}

// muddle takes a state out: the results alone do not say what must come of it.
func (t *telling) muddle(of told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.unclear[of] {
		t.unclear[of] = true
		t.sum.Unclear++
		if w := t.open[of]; w != nil {
			t.sum.Due -= uint64(len(w.due[0]) + len(w.due[1]))
			delete(t.open, of)
		}
	}
}

func (t *telling) of(of told) *outstanding {
	w := t.open[of]
	if w == nil {
		w = &outstanding{}
		t.open[of] = w
	}
	return w
}

// rest forgets a state of which nothing is outstanding.
func (t *telling) rest(of told, w *outstanding) {
	if len(w.due[0])+len(w.due[1])+len(w.came[0])+len(w.came[1])+len(w.aside[0])+len(w.aside[1]) == 0 {
		delete(t.open, of)
	}
}

// time takes a message that belongs to a result.
func (t *telling) time(intended, came int64) {
	t.run.waited("tell-p99", intended, came-intended, 1)
	if s := t.run.present(); s.at(intended) >= 0 && s[s.at(intended)].measured {
		t.sum.Timed++
		t.took.Record(came-intended, 1)
	}
}

// missing is how many messages have not come yet.
func (t *telling) missing() (n int) {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.open {
		n += len(w.due[0]) + len(w.due[1])
	}
	return n
}

// report is what came of it all, once nobody waits any more. What machines that the script left
// dead brought about last, nobody knows: the answer did not reach them.
func (t *telling) report(gone map[string]bool) *report.Notifications {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.sum
	for of, w := range t.open {
		if gone[of.node] {
			continue
		}
		for k, verb := range [...]string{"is well again", "fails"} {
			strange := slices.Concat(w.aside[k], w.came[k])
			sum.Missing += uint64(len(w.due[k]))
			sum.Extra += uint64(len(strange))
			switch name := of.node + "/" + of.check; {
			case len(w.due[k]) > 0:
				sum.Example = cmp.Or(sum.Example, fmt.Sprintf("%s: no message that it %s at %.1f s", name, verb, t.run.since(w.due[k][0])))
			case len(strange) > 0:
				sum.Example = cmp.Or(sum.Example, fmt.Sprintf("%s: a message at %.1f s that it %s, which no result brought about", name, t.run.since(strange[0]), verb))
			}
		}
	}
	sum.Latency, sum.Curve = t.took.Latency(), report.CurveOf(t.took.Buckets())
	return &sum
}

// storm is the status of a result of a check that is told of, in phases that speed alerts up:
// it is drawn as many times as often, until it changes. Caller holds the agent's lock.
func (a *agent) storm(c int, own model.Status, intended int64, seq uint64) model.Status {
	r := a.run
	if !r.storms || own != a.status[c] {
		return own
	}
	s := r.present()
	i := s.at(intended)
	if i < 0 {
		return own
	}
	says, definition := a.class.checks[c].says, a.set.definitions[c]
	for n := 1; n < int(r.speed(scenario.Alerts, s[i].phase)) && own == a.status[c]; n++ {
		own = says.Status(a.index, c, definition, outputs.Mix(seq^uint64(n)<<56), a.status[c], false)
	}
	return own
}

// again notes a message that came before.
func (t *telling) again() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Again++
}

// tellAbout has the run hear of the problems of checks that are to be told.
func (al *alarms) tellAbout() {
	if !al.run.cfg.Scenario.HasAlerts() {
		return
	}
	al.telling, al.tellables = newTelling(al.run), map[string]bool{}
	for _, c := range al.run.classes {
		for i := range c.checks {
			al.tellables[c.checks[i].full] = c.checks[i].tells
		}
	}
	for _, a := range al.run.agents {
		if slices.ContainsFunc(a.class.checks, func(k playing) bool { return k.tells }) {
			a.mu.Lock()
			a.ledger.tells = &teller{telling: al.telling, agent: a, failing: make([]bool, len(a.class.checks))}
			a.mu.Unlock()
		}
	}
}

// tellable says whether a check is one that is to be told.
func (al *alarms) tellable(check string) bool { return al.telling != nil && al.tellables[check] }

// messages is what came of messages; nil: none had to, and none came. Alerts of checks that nobody
// asked about are among them where no fault is judged by its alerts.
func (al *alarms) messages() *report.Notifications {
	if al == nil {
		return nil
	}
	al.mu.Lock()
	n, example := al.strangers, al.stranger
	al.mu.Unlock()
	if len(failing(al.run.cfg.Scenario)) > 0 {
		n = 0 // the first of the faults has it
	}
	if al.telling == nil && n == 0 {
		return nil
	}
	sum := &report.Notifications{}
	if al.telling != nil {
		sum = al.messagesDue()
	}
	if n > 0 {
		sum.Extra += uint64(n)
		sum.Example = cmp.Or(sum.Example, example+": nobody asked for alerts of it")
	}
	return sum
}

// messagesDue is what came of those that the scenario wants.
func (al *alarms) messagesDue() *report.Notifications {
	gone := map[string]bool{}
	for _, a := range al.run.agents {
		a.mu.Lock()
		gone[observe.OwnName(a.name)] = a.ledger.gone
		a.mu.Unlock()
	}
	return al.telling.report(gone)
}
