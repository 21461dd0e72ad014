package load

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/preflight"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// RunTarget plays a scenario's ramp, steady phases and drain against another system, and compares what that holds
// with what was sent.
//
// Of the configuration, Scenario, Goals, MaxLag, ServerPID, Second, Stop, Begun, Played and Progress count, AdminURL,
// where what runs there is Muster, and Server for the ports that are needed: host:port of each address, with commas
// between them.
func RunTarget(ctx context.Context, c Config, t Target) (rep *report.Report, err error) {
	if err := TargetPlays(c.Scenario, t); err != nil {
		return nil, err
	}
	if c, err = c.asked(t); err != nil {
		return nil, err
	}
	if err := preflight.Check(c.before()); err != nil {
		return nil, err
	}
	version, err := t.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	r := &targetRun{cfg: c, target: t, rep: newReport(c), seen: &observe.Tally{}}
	r.rep.Targeted, r.rep.Plan.TLS, r.rep.Goals = &report.Targeted{Name: t.Name(), Version: version}, t.Secured(), c.Goals
	r.log = observe.NewLog(c.Observed)
	r.log.Checks().OnSecond = r.show
	defer func() { _ = r.log.Close() }() // of a run without a report
	rep, err = r.do(ctx)
	cleaning, over := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer over()
	if bad := t.Clean(cleaning); bad != nil && rep != nil {
		rep.Label = append(rep.Label, fmt.Sprintf("what the run made on %s is not all gone: %v", t.Name(), bad))
	}
	return rep, err
}

// do is the run against a system that asks.
func (r *targetRun) do(ctx context.Context) (*report.Report, error) {
	c := r.cfg
	running, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	debug.FreeOSMemory() // as of a Muster run: what agents take is what is measured
	r.began = time.Now()
	r.idle = r.usage()
	agents := r.target.Agents(r.observe)
	if err := r.ramp(running, &all, agents); err != nil {
		return nil, err
	}
	if c.Begun != nil {
		c.Begun()
	}
	if err := r.play(ctx); err != nil {
		return nil, err
	}
	if c.Played != nil {
		c.Played()
	}
	for _, a := range agents {
		a.Rest()
	}
	unread := r.settle(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.label()
	r.log.Append(observe.Line{At: time.Since(r.begun), Measured: &observe.Measured{Report: r.rep.Report, Drained: time.Since(r.begun).Seconds(), Unread: textOf(unread)}})
	if err := r.log.Close(); err != nil {
		r.rep.Label = append(r.rep.Label, notWhole(err))
	}
	return judge.Checks(r.log.Checks())
}

// asked completes the configuration of a run whose target asks for results.
func (c Config) asked(t Target) (Config, error) {
	c.Members = simulated.Members(c.Scenario)
	c.Sources = (len(c.Members) + 19_999) / 20_000 // as its agents do on loopback
	c.MaxLag = cmp.Or(c.MaxLag, usualLag)
	// The objective loader-memory is of Muster's agents: others take more, and --goal asks it of them.
	if err := c.takeObjectives([]string{"loader-memory"}); err != nil {
		return c, err
	}
	c.labels = c.leaveOut(whatever, t.Name())
	return c, nil
}

// targetRun is a run's state. The lock guards what agents see.
type targetRun struct {
	cfg    Config
	target Target
	rep    *reporting
	log    *observe.Log
	began  time.Time
	begun  time.Time // the first phase, with its warm-up
	score  score     // since then
	idle   usage.SoFar
	server usage.Odometer
	before report.Totals // at the last sample
	last   usage.SoFar
	number int           // of the next second
	span   time.Duration // of the last one

	mu   sync.Mutex
	seen *observe.Tally // since the last second
}

func (r *targetRun) usage() usage.SoFar { return r.server.Use(time.Since(r.began), r.cfg.ServerPID) }

// within is usage, with what the server under test says of itself where it is Muster.
func (r *targetRun) within() usage.SoFar {
	u := r.usage()
	u.Metrics = usage.Metrics(r.cfg.AdminURL)
	return u
}

func (r *targetRun) observe(o Observed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.seen
	t.Results++
	t.Acked++
	t.InTime++
	t.Current++
	t.Frames++
	t.Whole.Record(int64(o.Left.Sub(o.Intended)), 1)
	t.Lag.Record(int64(o.Left.Sub(o.Due)), 1)
	t.Batches.Record(1000, 1) // one result is one frame
}

// ramp starts the agents evenly, and waits until the system has made all of them work.
func (r *targetRun) ramp(ctx context.Context, all *sync.WaitGroup, agents []TargetAgent) error {
	length := time.Duration(len(agents)) * time.Second / 500
	for _, p := range r.cfg.Scenario.Phases {
		if p.Ramp > 0 {
			length = time.Duration(p.Ramp)
		}
	}
	for i, a := range agents {
		if err := pause.For(ctx, time.Until(r.began.Add(length*time.Duration(i)/time.Duration(len(agents))))); err != nil {
			return err
		}
		all.Go(func() { a.Run(ctx) })
	}
	r.rep.ConnectSeconds = time.Since(r.began).Seconds()
	patience := 5 * time.Minute // a backend takes that long for a thousand that come at once
	for idle, ready := time.Now(), 0; ; {
		now := r.target.Totals().Ready
		if now == len(agents) {
			break
		}
		if now > ready {
			idle, ready = time.Now(), now
		}
		if time.Since(idle) > patience || time.Since(idle) > 30*time.Second && ready == 0 {
			why := "no answer"
			for _, a := range agents {
				if err := a.Trouble(); err != nil {
					why = err.Error()
				}
			}
			return model.Errorf(model.Unavailable, "%d of %d agents are registered; the others: %s", ready, len(agents), why)
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	r.rep.ReadySeconds = time.Since(r.began).Seconds()
	debug.FreeOSMemory()
	r.rep.ready = r.within()
	r.rep.Goroutines = float64(runtime.NumGoroutine()) / float64(len(agents))
	r.rep.AgentBytes = float64(r.rep.ready.Loader.RSS-r.idle.Loader.RSS) / float64(len(agents))
	return nil
}

// play plays the phases, each after its warm-up.
func (r *targetRun) play(ctx context.Context) error {
	r.score = newScore(r.cfg.Scenario.Phases, 0)
	r.last, r.before, r.begun = r.usage(), r.target.Totals(), time.Now()
	head := *r.rep.Report
	r.log.Append(observe.Line{Checked: &observe.Checked{Version: observe.Version, Report: &head, Seconds: time.Duration(r.score.end()).Seconds(), Opened: r.begun.Sub(r.began).Seconds(), Ready: r.rep.ready}})
	r.log.Append(observe.Line{Score: r.score.spans(0)})
	for n := 0; n < len(r.score); n++ {
		r.edge(n)
		if err := r.until(ctx, n); err != nil {
			return err
		}
	}
	r.edge(len(r.score))
	return nil
}

// edge writes what was used until a part.
func (r *targetRun) edge(part int) {
	r.log.Append(observe.Line{At: time.Since(r.begun), Edge: &observe.Edge{Part: part, SoFar: r.within()}})
}

// until samples every second until the end of a part. A run that is stopped ends there.
func (r *targetRun) until(ctx context.Context, part int) error {
	p := r.score[part]
	for left := time.Duration(p.to) - time.Since(r.begun); left > 0; left = time.Duration(p.to) - time.Since(r.begun) {
		select {
		case by := <-r.cfg.Stop:
			now := time.Since(r.begun)
			r.rep.Stopped = &report.Stopped{After: now.Seconds(), Of: time.Duration(r.score.end()).Seconds(), Phase: p.name(r.cfg.Scenario), By: by}
			r.sample(part)
			r.score = r.score.stopped(int64(now))
			r.log.Append(observe.Line{At: now, Score: r.score.spans(0)})
			return nil
		case <-time.After(min(left, time.Second)):
			r.sample(part)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *targetRun) sample(part int) {
	u, now := r.usage(), r.target.Totals()
	r.mu.Lock()
	t := r.seen
	r.seen = &observe.Tally{}
	r.mu.Unlock()
	r.span = u.At - r.last.At
	p := r.score[part]
	s := report.Sample{Second: int(math.Floor((time.Since(r.begun) - time.Duration(r.score.zero())).Seconds())), Failed: now.Failed - r.before.Failed, Connected: now.Connected,
		ServerCPU: u.Server.Cores(r.last.Server, r.span), LoaderCPU: u.Loader.Cores(r.last.Loader, r.span), ServerRSS: u.Server.RSS, LoaderRSS: u.Loader.RSS,
		Phase: p.name(r.cfg.Scenario), Nth: p.phase + 1}
	r.last, r.before = u, now
	r.log.Append(observe.Line{At: time.Since(r.begun), Check: &observe.CheckSecond{Number: r.number, Sample: &s, Parts: map[int]*observe.Tally{part: t}, Used: &u,
		Offered: map[int]uint64{r.number: uint64(r.cfg.Scenario.Rate() * r.span.Seconds())}}})
	r.number++
}

// show shows a second to who looks.
func (r *targetRun) show(s *report.Sample, _ int, _ observe.Histogram) {
	if r.cfg.Progress != nil {
		r.cfg.Progress(*s)
	}
}

// settle compares until the system holds what was sent, or the drain is over. The error says why
// it could not; the balance is what the agents know alone then.
func (r *targetRun) settle(ctx context.Context) error {
	ctx, over := r.cfg.ending(ctx)
	defer over()
	end := time.Now().Add(r.cfg.drain())
	for {
		b := &report.Balance{}
		states, kept, err := r.target.Compare(ctx, func(i report.Imbalance, problem string) {
			b.Differ++
			b.Add(i, "%s", problem)
		})
		t := r.target.Totals()
		if err != nil {
			r.rep.Balance, r.rep.Targeted.Totals = &report.Balance{Sent: t.Sent, Unsure: t.Sent}, t
			return becauseOf(ctx, err)
		}
		b.Sent, b.Acknowledged, b.Compared, b.Unsure = t.Sent, kept, states, t.Sent-t.Written
		b.Missing = t.Written - min(kept, t.Written)
		r.rep.Balance, r.rep.Targeted.Totals, r.rep.States = b, t, uint64(states)
		if b.OK() || time.Now().After(end) {
			return nil
		}
		if err := pause.For(ctx, min(time.Second, r.cfg.drain()/4)); err != nil {
			return nil // what was compared last counts
		}
	}
}

// label says what must be said wherever the figures are shown.
func (r *targetRun) label() {
	rep := r.rep
	t := rep.Targeted
	rep.Label = append(rep.Label, fmt.Sprintf("target: %s %s", t.Name, t.Version),
		"steady phases only: no other rates, steps, churn, faults, operators and intent are played; beside a run of the same scenario against Muster stand results, ledger and what was used, not latency",
		"nothing is acknowledged: latency is from a request's time of issue, in whole seconds, until its result had left")
	if r.cfg.plan().TLS && !rep.Plan.TLS {
		rep.Label = append(rep.Label, "without TLS: the scenario has it, and the address is ws://")
	}
}
