package play

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/pause"
)

// Script plays the scenario's faults at their times, and the churn of machines.
type Script struct {
	fleet  *Fleet
	beside sync.WaitGroup

	// The caller sets these before Play.
	Append      func(observe.Line)        // writes to the observation log
	ServerEnds  func(ctx context.Context) // the server's process is about to be ended or suspended by a fault
	AwaitServer func(ctx context.Context) // returns once a server answers again

	cues []cue // that wait, by time; only of Play

	mu      sync.Mutex
	strikes []*strike // of the scenario's faults, in its order
}

// cue is an action at a time of the run.
type cue struct {
	at   int64 // ns since the run was made
	do   func(ctx context.Context)
	ends bool // it is also done when the timetable ends before
}

// newScript plans the strikes of all faults.
func (f *Fleet) NewScript() (*Script, error) {
	s := &Script{fleet: f}
	for i := range f.cfg.Scenario.Faults {
		x, err := f.plan(i)
		if err != nil {
			return nil, err
		}
		s.strikes = append(s.strikes, x)
	}
	return s, nil
}

// add adds a cue behind those of the same time.
func (s *Script) add(c cue) {
	i := sort.Search(len(s.cues), func(i int) bool { return s.cues[i].at > c.at })
	s.cues = slices.Insert(s.cues, i, c)
}

// pop removes and returns the first cue, if there is one before a time.
func (s *Script) pop(before int64) (c cue, ok bool) {
	if len(s.cues) == 0 || s.cues[0].at >= before {
		return c, false
	}
	c, s.cues = s.cues[0], s.cues[1:]
	return c, true
}

// Play plays faults and churn until the timetable ends. Machines that churn disconnected come back then; machines that a fault
// stopped until the end lose the results that they hold.
func (s *Script) Play(ctx context.Context) {
	defer s.beside.Wait()
	zero := s.fleet.Present().Zero()
	for _, x := range s.strikes {
		at := zero + int64(x.fault.At)
		s.add(cue{at: at, do: func(ctx context.Context) { s.strike(ctx, x) }})
		if x.fault.For > 0 {
			s.add(cue{at: at + int64(x.fault.For), do: func(ctx context.Context) { s.undo(ctx, x) }})
		}
	}
	for _, f := range s.flows() {
		s.flow(f)
	}
	for ctx.Err() == nil {
		now, end := s.fleet.Now(), s.fleet.Present().End()
		if c, due := s.pop(min(now+1, end)); due {
			c.do(ctx)
			continue
		}
		if now >= end {
			break
		}
		next := end
		if len(s.cues) > 0 {
			next = min(next, s.cues[0].at)
		}
		pause.For(ctx, min(time.Duration(next-now), 100*time.Millisecond))
	}
	if ctx.Err() == nil {
		s.over(ctx)
	}
}

// effects returns what a fault does to each agent, and what its end does. A cut is a storm.
func (x *strike) effects() (strike, undo func(a *agent)) {
	switch f := &x.fault; {
	case f.Stop != nil:
		return func(a *agent) { a.vanish(true) }, (*agent).appear
	case f.Hang != nil:
		return befall(func(f *fate) { f.hung = true }), befall(func(f *fate) { f.hung = false })
	case f.Fail != nil:
		return func(a *agent) { a.force(x.checks[a.class], x.status, x.at) }, func(a *agent) { a.release(x.checks[a.class], x.until) }
	case f.Wrong != nil:
		return befall(func(f *fate) { f.wrong = true }), befall(func(f *fate) { f.wrong = false })
	}
	return befall(func(*fate) {}), befall(func(*fate) {})
}

// befall returns a function that changes the fate of an agent.
func befall(change func(f *fate)) func(a *agent) {
	return func(a *agent) {
		a.mu.Lock()
		defer a.mu.Unlock()
		change(&a.fate)
	}
}

// strike starts a fault.
func (s *Script) strike(ctx context.Context, x *strike) {
	fleet := s.fleet
	if server := x.fault.Server; server == "kill" || server == "restart" {
		s.ServerEnds(ctx)
	}
	s.mu.Lock()
	x.at = fleet.Now()
	s.mu.Unlock()
	s.log(x, false)
	do, _ := x.effects()
	for _, a := range x.agents {
		do(a)
	}
	for _, p := range x.pairs {
		p.force(x.status, x.at)
	}
	f := &x.fault
	if f.Cut != nil {
		s.storm(ctx, x.agents)
	}
	if f.Server == "" || fleet.cfg.Follows() { // the lead does it
		return
	}
	s.act(x, map[string]func() error{
		"stop":    func() error { return fleet.cfg.Control.Pause() },
		"restart": func() error { return fleet.cfg.Control.Restart(ctx) },
		"kill":    func() error { return fleet.cfg.Control.Kill(ctx) },
	}[f.Server])
}

// undo ends a fault.
func (s *Script) undo(_ context.Context, x *strike) {
	s.mu.Lock()
	x.until = s.fleet.Now()
	s.mu.Unlock()
	s.log(x, true)
	_, undo := x.effects()
	for _, a := range x.agents {
		undo(a)
	}
	for _, p := range x.pairs {
		p.release(x.until)
	}
	if x.fault.Server == "stop" && !s.fleet.cfg.Follows() {
		s.act(x, s.fleet.cfg.Control.Continue)
	}
}

// log writes the start or the end of a fault to the observation log.
func (s *Script) log(x *strike, over bool) {
	at := s.fleet.SinceBegin()
	f := observe.Fault{Number: x.index, Places: x.places, What: What(&x.fault), At: at.Seconds(), Over: over, Server: x.fault.Server == "kill" || x.fault.Server == "restart"}
	if x.fault.Cut != nil {
		f.Cut = len(x.members)
	}
	if x.fault.Cut != nil || x.fault.Stop != nil && over {
		f.Struck = x.members
	}
	s.Append(observe.Line{At: at, Fault: &f})
}

// act runs an action that may take long in a goroutine, and keeps its error.
func (s *Script) act(x *strike, do func() error) {
	s.beside.Go(func() {
		err := do()
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			x.err = err
		}
		if x.fault.Server != "stop" || x.until > 0 { // one that stands still is away until it goes on
			x.over = s.fleet.Now()
		}
	})
}

// over connects machines that are offline, and ends faults without a duration, so that every agent's ledger can be compared.
func (s *Script) over(ctx context.Context) {
	for _, c := range s.cues {
		if c.ends {
			c.do(ctx)
		}
	}
	for _, x := range s.strikes {
		switch {
		case x.at == 0 || x.until > 0:
		case x.fault.Stop != nil:
			for _, a := range x.agents {
				a.mu.Lock()
				a.ledger.Stopped = a.fate.dead
				a.mu.Unlock()
			}
		case x.fault.Server == "stop":
			s.undo(ctx, x)
		}
	}
}

// Failed returns the error of the first fault that could not be played.
func (s *Script) Failed() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.strikes {
		if x.err != nil {
			return x.err
		}
	}
	return nil
}

// awayTimes returns the times since begin in which faults kept the server away.
func (s *Script) awayTimes(begin int64) (list []observe.Stay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.strikes {
		if x.away(0, plan.Never) {
			stay := observe.Stay{From: x.at - begin, To: observe.Lasts}
			if x.over > 0 {
				stay.To = x.over - begin
			}
			list = append(list, stay)
		}
	}
	return list
}

// serverAway reports whether a fault kept the server away at some time between from and to. Caller holds the lock.
func (s *Script) serverAway(from, to int64) bool {
	return slices.ContainsFunc(s.strikes, func(x *strike) bool { return x.away(from, to) })
}

// storm closes connections at the same time, as the end of a server does, each in a goroutine of its own.
func (s *Script) storm(ctx context.Context, agents []*agent) {
	s.beside.Go(func() { s.AwaitServer(ctx) })
	for _, a := range agents {
		a.mu.Lock()
		session, away := a.session, a.fate.back != nil
		a.mu.Unlock()
		if session != nil && !away {
			s.beside.Go(session.Close)
		}
	}
}
