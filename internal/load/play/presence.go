package play

import (
	"slices"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// connected reports whether the machine has a session and network. Caller holds the lock.
func (l *ledger) connected() bool {
	n := len(l.Stays)
	return n > 0 && l.Stays[n-1].To == observe.Lasts
}

// stands records whether the agent is connected, or excused, and updates the counts of the run in one step. An agent
// that changes from one to the other never counts as lost. Caller holds the lock.
func (a *agent) stands(connected, excused bool) {
	fleet, l, now := a.fleet, &a.ledger, a.fleet.Now()
	is := l.connected()
	was, stands := is || a.fate.excused, connected || excused
	a.fate.excused = excused
	switch {
	case connected && !is:
		l.Stays = append(l.Stays, observe.Stay{From: now, To: observe.Lasts})
		fleet.connected.Add(1)
	case is && !connected:
		l.Stays[len(l.Stays)-1].To = now
		fleet.connected.Add(-1)
	}
	switch {
	case stands && !was:
		if n := len(l.Absences); n > 0 { // else it is its first session
			l.Absences[n-1].To = now
		}
		fleet.accounted.Add(1)
	case was && !stands:
		l.Absences = append(l.Absences, observe.Absence{From: now, To: observe.Lasts})
		fleet.accounted.Add(-1)
	}
}

// excuse marks the end of the session as caused by the scenario. Caller holds the lock.
func (a *agent) excuse() { a.stands(false, true) }

// uncount removes the agent from the connected ones. Caller holds the lock.
func (a *agent) uncount() { a.stands(false, a.fate.excused) }

// count adds the agent to the connected ones, if its machine is on the network. Caller holds the lock.
func (a *agent) count() {
	if a.fate.back == nil {
		a.stands(true, false)
	}
}

// speaks records that the agent sends something. If the loader itself sent nothing for long, the server reports the
// machine as silent with reason: such times are longer than the mean of keepalive interval and timeout. Caller holds
// the lock.
func (a *agent) speaks(now int64) {
	interval, timeout := a.class.spec.Keepalive.EffectiveTimes()
	if last := max(a.lastSend, a.since); a.since > 0 && now-last > int64(interval+timeout)/2 {
		a.ledger.Quiet = append(a.ledger.Quiet, observe.Stay{From: last, To: now})
	}
	a.lastSend = now
}

// acking records the first acknowledgement after an absence. Caller holds the lock.
func (a *agent) acking() {
	if n := len(a.ledger.Absences); n > 0 {
		if last := &a.ledger.Absences[n-1]; last.To != observe.Lasts && last.Acked == 0 {
			last.Acked = a.fleet.Now()
		}
	}
}

// attended reports whether the machine had a session from from to to without interruption.
func (a *agent) attended(from, to int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.ledger.Stays, func(s observe.Stay) bool { return s.From <= from && s.To >= to })
}
