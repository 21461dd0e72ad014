package load

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// driver plays the agents of a run against one system. run.do calls its methods one after the other, in this order, but
// for sessions, which the watch calls.
type driver interface {
	// describe adds the properties of system and plan to the report.
	describe(rep *reporting) error
	// open begins to open the sessions of all agents, and keeps them open until leave.
	open(ctx context.Context) (leave func())
	// ready returns the number of agents that have had a session, and of those that hold their checks.
	ready() (connected, ready int)
	// stuck returns why agents are not ready that made no progress for some time; nil: they may still become so.
	stuck(idle time.Duration) error
	// sessions returns the number of sessions, and of connections that could not be opened so far.
	sessions() (open int, failed uint64)
	// play plays the timetable to its end.
	play(ctx context.Context)
	// rest waits until nothing is on its way any more.
	rest(ctx context.Context)
	// settle compares what was sent with what the system holds, until both agree or the time for that is over. The error
	// says why the system could not be read.
	settle(ctx context.Context, rep *reporting, before observe.States) error
}

// waitReady waits until every agent has a session and its checks.
func (r *run) waitReady(ctx context.Context, rep *reporting) error {
	n := r.own()
	began := time.Now()
	idle, last := began, -1
	for {
		connected, ready := r.driver.ready()
		if rep.ConnectSeconds == 0 && (connected == n || ready == n) {
			rep.ConnectSeconds = time.Since(began).Seconds()
		}
		if ready == n {
			rep.ReadySeconds = time.Since(began).Seconds()
			return nil
		}
		if connected+ready != last {
			idle, last = time.Now(), connected+ready
		}
		if err := r.driver.stuck(time.Since(idle)); err != nil {
			return err
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// own returns the number of agents that this process plays.
func (r *run) own() int { return r.cfg.Part.share(len(r.cfg.Members)) }

// evenly calls start for each own agent, evenly spread over the ramp.
func (r *run) evenly(ctx context.Context, all *sync.WaitGroup, start func(i int)) {
	r.opened = r.now()
	ramp, began := r.ramp(), time.Now()
	all.Go(func() {
		for i := range r.own() {
			if ramp > 0 && pause.For(ctx, time.Until(began.Add(ramp*time.Duration(r.place(i))/time.Duration(len(r.cfg.Members))))) != nil {
				return
			}
			all.Go(func() { start(i) })
		}
	})
}

// ramp returns the time over which agents connect one after the other.
func (r *run) ramp() time.Duration {
	if p := r.cfg.Scenario.Phases; len(p) > 0 {
		return time.Duration(p[0].Ramp)
	}
	return 0
}

// muster is the driver of runs against Muster.
type muster struct{ *run }

// describe adds the hash of the plan to the report.
func (m muster) describe(rep *reporting) (err error) {
	rep.Plan.Digest, err = m.planHash()
	return err
}

// open opens the sessions of all agents.
func (m muster) open(ctx context.Context) (leave func()) {
	live, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	m.evenly(live, &readers, func(i int) { m.agents[i].live(live, &readers) })
	return func() {
		stop()
		m.bye()
		readers.Wait()
	}
}

// ready returns how many agents had a session, and how many hold their checks.
func (m muster) ready() (connected, ready int) {
	return int(m.first.Load()), int(m.run.ready.Load())
}

// stuck returns an error if agents make no progress for too long.
func (m muster) stuck(idle time.Duration) error {
	if idle > time.Minute+2*m.ramp()/time.Duration(m.own()) {
		return m.whyNot()
	}
	return nil
}

// whyNot explains why not all agents became ready.
func (m muster) whyNot() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if welcomed := int(m.first.Load()); welcomed < len(m.agents) {
		reason, most := "no answer", uint64(0)
		for text, n := range m.failures {
			if n > most {
				reason, most = text, n
			}
		}
		return model.Errorf(model.Unavailable, "%d of %d agents have a session; the others: %s", welcomed, len(m.agents), reason).
			WithHint(howPrepared)
	}
	for _, x := range m.classes {
		if x.fewest < len(x.checks) {
			return model.Errorf(model.Invalid, "%d of %d agents hold their checks; of class %s an assignment with %d of %d was seen",
				m.run.ready.Load(), len(m.agents), x.spec.Name, max(0, x.fewest), len(x.checks)).WithHint(howPrepared)
		}
	}
	return model.Errorf(model.Unavailable, "%d of %d agents hold their checks", m.run.ready.Load(), len(m.agents))
}

// howPrepared is the hint for a server without the scenario's nodes and checks.
const howPrepared = "muster load prepare with the same scenario and seed, with the server stopped; or leave --server out: the run then has a server of its own"

// sessions returns the number of open sessions and of failed attempts.
func (m muster) sessions() (open int, failed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, times := range m.failures {
		failed += times
	}
	return int(m.connected.Load()), failed
}

// play plays the timetables of all senders.
func (m muster) play(ctx context.Context) {
	var playing sync.WaitGroup
	for _, s := range m.senders {
		playing.Go(func() { s.play(ctx) })
	}
	playing.Wait()
}

// bye closes all sessions as agents do at a planned stop.
func (m muster) bye() {
	for _, a := range m.agents {
		a.mu.Lock()
		s, l, away := a.session, a.fate.line, a.fate.back != nil
		a.mu.Unlock()
		if away {
			hangUp(s, l)
		} else if s != nil {
			s.Bye("the load run is over")
		}
	}
}

// Forever plays a scenario without measuring it until ctx ends. Agents that are not ready yet are waited for.
func Forever(ctx context.Context, cfg Config) error {
	r, err := readyRun(cfg)
	if err != nil {
		return err
	}
	return r.forever(ctx)
}

// forever plays the run until ctx ends, after all agents hold their checks.
func (r *run) forever(ctx context.Context) error {
	var house sync.WaitGroup
	defer house.Wait()
	r.deal()
	defer r.driver.open(ctx)()
	for r.ready.Load() < int64(len(r.agents)) {
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return nil
		}
	}
	house.Go(func() { r.keepHouse(ctx) })
	r.follow(forever(r.now(), never))
	r.driver.play(ctx)
	return nil
}
