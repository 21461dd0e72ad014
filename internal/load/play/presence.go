package play

import (
	"slices"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// arrive records that the machine has a session from now on. Caller holds the lock.
func (a *agent) arrive(now int64) {
	if a.fate.back == nil {
		a.here = now
	}
}

// depart records that the machine has no session from now on.
func (a *agent) depart() {
	if a.here > 0 {
		a.stays = append(a.stays, observe.Stay{From: a.here, To: a.fleet.Now()})
		a.here = 0
	}
}

// present returns the times at which the machine had a session and network, in ns since the run was made. Caller holds
// the lock.
func (a *agent) present() []observe.Stay {
	if a.here == 0 {
		return a.stays
	}
	return append(slices.Clip(a.stays), observe.Stay{From: a.here, To: observe.Lasts})
}

// speaks records that the agent sends something. If the loader itself sent nothing for long, the server reports the
// machine as silent with reason: such times are longer than the mean of keepalive interval and timeout. Caller holds
// the lock.
func (a *agent) speaks(now int64) {
	interval, timeout := a.class.spec.Keepalive.EffectiveTimes()
	if last := max(a.lastSend, a.since); a.since > 0 && now-last > int64(interval+timeout)/2 {
		a.quiet = append(a.quiet, observe.Stay{From: last, To: now})
	}
	a.lastSend = now
}

// miss records that an agent lost its session although it should have one, or that it has one again. Caller holds the
// lock.
func (a *agent) miss(here bool) {
	if !here {
		a.missed = a.fleet.Now()
	} else if a.missed > 0 {
		a.absences = append(a.absences, observe.Absence{From: a.missed, To: a.fleet.Now()})
		a.missed = 0
	}
}

// acking records the first acknowledgement after an absence. Caller holds the lock.
func (a *agent) acking() {
	if n := len(a.absences); n > 0 && a.absences[n-1].Acked == 0 {
		a.absences[n-1].Acked = a.fleet.Now()
	}
}

// missing returns the agent's absences in ns since the start of the timetable. Caller holds the lock.
func (a *agent) missing() (list []observe.Absence) {
	begin := a.fleet.Begin()
	for _, x := range a.absences {
		x.From, x.To = x.From-begin, x.To-begin
		if x.Acked > 0 {
			x.Acked -= begin
		}
		list = append(list, x)
	}
	if a.missed > 0 {
		list = append(list, observe.Absence{From: a.missed - begin, To: observe.Lasts})
	}
	return list
}

// attended reports whether the machine had a session from from to to without interruption.
func (a *agent) attended(from, to int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.present(), func(s observe.Stay) bool { return s.From <= from && s.To >= to })
}
