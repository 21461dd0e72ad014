package play

import (
	"cmp"
	"context"
	"slices"
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

	mu      sync.Mutex
	strikes []*strike // of the scenario's faults, in its order
}

// cue is an action at a time of the run.
type cue struct {
	at int64 // ns since the run was made
	do func(ctx context.Context)
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

// Play plays all cues until the timetable ends. Machines that churn disconnected come back then; machines that a fault
// stopped until the end lose the results that they hold.
func (s *Script) Play(ctx context.Context) {
	fleet := s.fleet
	defer s.beside.Wait()
	cues := s.cues()
	churn := s.newChurn()
	for ctx.Err() == nil {
		end := fleet.Present().End()
		next := cue{at: end}
		if len(cues) > 0 && cues[0].at < next.at {
			next = cues[0]
		}
		if c := churn.next(); c.at < next.at {
			next = c
		}
		if wait := time.Duration(next.at - fleet.Now()); wait > 0 {
			pause.For(ctx, min(wait, 100*time.Millisecond))
			continue
		}
		switch {
		case next.do == nil:
			churn.over()
			s.over(ctx)
			return
		case len(cues) > 0 && cues[0].at == next.at:
			cues = cues[1:]
		default:
			churn.step()
		}
		next.do(ctx)
	}
}

// cues returns the start and the end of each strike, sorted by time.
func (s *Script) cues() (list []cue) {
	fleet := s.fleet
	zero := fleet.Present().Zero()
	for _, x := range s.strikes {
		at := zero + int64(x.fault.At)
		list = append(list, cue{at, func(ctx context.Context) { s.strike(ctx, x) }})
		if x.fault.For > 0 {
			list = append(list, cue{at + int64(x.fault.For), func(ctx context.Context) { s.undo(ctx, x) }})
		}
	}
	slices.SortStableFunc(list, func(a, b cue) int { return cmp.Compare(a.at, b.at) })
	return list
}

// effects returns what a fault does to each agent, and what its end does; nil means nothing. A cut is a storm.
func (x *strike) effects() (strike, undo func(a *agent)) {
	switch f := &x.fault; {
	case f.Stop != nil:
		return func(a *agent) { a.vanish(true) }, (*agent).appear
	case f.Hang != nil:
		return func(a *agent) { a.hang(true) }, func(a *agent) { a.hang(false) }
	case f.Fail != nil:
		return func(a *agent) { a.force(x.checks[a.class], x.status, x.at) }, func(a *agent) { a.release(x.checks[a.class], x.until) }
	case f.Wrong != nil:
		return func(a *agent) { a.be(true) }, func(a *agent) { a.be(false) }
	}
	return nil, nil
}

// each calls do for each agent, unless do is nil.
func each(agents []*agent, do func(a *agent)) {
	if do == nil {
		return
	}
	for _, a := range agents {
		do(a)
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
	each(x.agents, do)
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
	each(x.agents, undo)
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

// over ends faults without a duration, so that every agent's ledger can be compared.
func (s *Script) over(ctx context.Context) {
	for _, x := range s.strikes {
		switch {
		case x.at == 0 || x.until > 0:
		case x.fault.Stop != nil:
			for _, a := range x.agents {
				a.mu.Lock()
				a.ledger.gone = a.fate.dead
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

// be starts or stops sending results that the server must refuse.
func (a *agent) be(wrong bool) {
	a.mu.Lock()
	a.fate.wrong = wrong
	a.mu.Unlock()
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
