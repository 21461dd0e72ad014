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
	"github.com/muster-fleet/muster/internal/load/scenario"
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
	r := &targetRun{cfg: c, target: t, rep: newReport(c), second: newTally(), part: newTally()}
	r.rep.Targeted, r.rep.Plan.TLS, r.rep.Goals = &report.Targeted{Name: t.Name(), Version: version}, t.Secured(), c.Goals
	r.log = observe.NewLog(c.Observed)
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
	r.rep.idle = r.usage()
	agents := r.target.Agents(r.observe)
	if err := r.ramp(running, &all, agents); err != nil {
		return nil, err
	}
	head := *r.rep.Report
	r.log.Append(observe.Line{Checked: &observe.Checked{Version: observe.Version, Report: &head, Seconds: c.Scenario.Measured().Seconds()}})
	if c.Begun != nil {
		c.Begun()
	}
	for i := range c.Scenario.Phases {
		if p := &c.Scenario.Phases[i]; p.Measured() && r.rep.Stopped == nil {
			r.nth = i + 1
			if err := r.steady(ctx, p); err != nil {
				return nil, err
			}
		}
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
	r.finish()
	r.log.Append(observe.Line{At: time.Since(r.begun), Measured: &observe.Measured{Report: r.rep.Report, Looked: r.rep.Inside != nil, Unread: textOf(unread)}})
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

// targetRun is a run's state. The lock guards the tallies.
type targetRun struct {
	cfg    Config
	target Target
	rep    *reporting
	log    *observe.Log
	began  time.Time
	begun  time.Time // the first phase, with its warm-up
	zero   time.Time // of the measurement
	whole  int       // phases so far
	sum    *tally
	used   usage.Gained
	server usage.Odometer
	phase  string        // that is played …
	nth    int           // … of the scenario, from 1
	tag    string        // of what is recorded now: warmup, or none
	before report.Totals // at the last sample
	last   usage.SoFar

	mu     sync.Mutex
	second *tally
	part   *tally
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
	for _, t := range [...]*tally{r.second, r.part} {
		t.results++
		t.acked++
		t.inTime++
		t.current++
		t.frames++
		record(t.whole, int64(o.Left.Sub(o.Intended)), 1)
		record(t.lag, int64(o.Left.Sub(o.Due)), 1)
	}
	record(r.part.batches, 1000, 1) // one result is one frame: record takes ns for µs
}

// take begins a tally anew and returns what it held.
func (r *targetRun) take(t **tally) *tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *t
	*t = newTally()
	return old
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
	r.rep.AgentBytes = float64(r.rep.ready.Loader.RSS-r.rep.idle.Loader.RSS) / float64(len(agents))
	r.rep.Phases = append(r.rep.Phases, report.Played{Name: report.KindRamp, Kind: report.KindRamp, From: -r.rep.ReadySeconds})
	return nil
}

// steady measures one phase, after its warm-up.
func (r *targetRun) steady(ctx context.Context, p *scenario.Phase) error {
	if r.last.At == 0 {
		r.last, r.before, r.begun = r.usage(), r.target.Totals(), time.Now()
	}
	begin := time.Now().Add(time.Duration(p.Warmup))
	if r.zero.IsZero() {
		r.zero, r.sum = begin, newTally()
	}
	r.tag, r.phase = "warmup", cmp.Or(p.Name, p.Kind())
	if err := r.until(ctx, begin); err != nil {
		return err
	}
	if r.rep.Stopped != nil { // in the warm-up
		return nil
	}
	r.tag = ""
	r.take(&r.part)
	first := r.within()
	if err := r.until(ctx, begin.Add(time.Duration(p.Length())-time.Duration(p.Warmup))); err != nil {
		return err
	}
	t, last := r.take(&r.part), r.within()
	var g usage.Gained
	g.Add(first, last)
	short := r.rep.Stopped != nil
	if !short || r.rep.Stopped.Whole == 0 {
		r.used.Add(first, last)
		r.sum.merge(t)
		r.rep.measured += g.Length
	}
	if !short {
		r.whole++
	}
	played := report.Played{Name: p.Name, Kind: p.Kind(), From: begin.Sub(r.zero).Seconds(), To: time.Since(r.zero).Seconds(), Rate: 1, Short: short,
		Offered: r.cfg.Scenario.Rate(), Acknowledged: float64(t.acked) / g.Length.Seconds(), Latency: report.LatencyOf(t.whole), Lag: report.LatencyOf(t.lag)}
	if played.Name == "" {
		played.Name = played.Kind
	}
	played.Server, played.Loader = g.Usages(t.results)
	r.rep.Phases = append(r.rep.Phases, played)
	return nil
}

// until samples every second until an instant, or until the run is stopped.
func (r *targetRun) until(ctx context.Context, end time.Time) error {
	for left := time.Until(end); left > 0 && r.rep.Stopped == nil; left = time.Until(end) {
		select {
		case by := <-r.cfg.Stop:
			r.rep.Stopped = &report.Stopped{After: time.Since(r.begun).Seconds(), Of: r.cfg.Scenario.Measured().Seconds(), Phase: r.phase, Whole: r.whole, By: by}
		case <-time.After(min(left, time.Second)):
			r.sample()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *targetRun) sample() {
	u, now, t := r.usage(), r.target.Totals(), r.take(&r.second)
	span := u.At - r.last.At
	l := report.LatencyOf(t.whole)
	s := report.Sample{Second: int(math.Floor(time.Since(r.zero).Seconds())), Sent: now.Sent - r.before.Sent, Acked: now.Written - r.before.Written, Failed: now.Failed - r.before.Failed, Connected: now.Connected,
		ServerCPU: u.Server.Cores(r.last.Server, span), LoaderCPU: u.Loader.Cores(r.last.Loader, span), ServerRSS: u.Server.RSS, LoaderRSS: u.Loader.RSS,
		Offered: uint64(r.cfg.Scenario.Rate() * span.Seconds()), Phase: r.phase, Nth: r.nth, Lag: float64(t.lag.ValueAtQuantile(99)) / 1000}
	if t.whole.TotalCount() > 0 { // the system asks in bursts
		s.Latency = &l
	}
	r.last, r.before = u, now
	r.rep.Samples = append(r.rep.Samples, s)
	_, _, lag := observe.NewSecond()
	lag.Merge(t.lag)
	r.log.Append(observe.Line{At: time.Since(r.begun), Check: &observe.CheckSecond{Number: len(r.rep.Samples) - 1, Measured: r.tag == "", Sample: s, Whole: observe.Pack(t.whole), Lag: observe.Pack(lag)}})
	if r.cfg.Second != nil {
		ended := time.Now()
		t.whole.SetStartTimeMs(ended.Add(-span).UnixMilli()) // the last one of a phase may be short
		t.whole.SetEndTimeMs(ended.UnixMilli())
		t.whole.SetTag(r.tag)
		r.cfg.Second(ended.Add(-span), t.whole)
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(s)
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

// finish fills in the figures.
func (r *targetRun) finish() {
	rep := r.rep
	rep.Phases = append(rep.Phases, report.Played{Name: report.KindDrain, Kind: report.KindDrain, From: rep.Phases[len(rep.Phases)-1].To, To: time.Since(r.zero).Seconds()})
	rep.finish(r.cfg, r.sum, &r.used)
	rep.Calls, rep.Disk = nil, nil // they are told in terms of Muster's journal
	t := rep.Targeted
	rep.Label = append(rep.Label, fmt.Sprintf("target: %s %s", t.Name, t.Version),
		"steady phases only: no other rates, steps, churn, faults, operators and intent are played; beside a run of the same scenario against Muster stand results, ledger and what was used, not latency",
		"nothing is acknowledged: latency is from a request's time of issue, in whole seconds, until its result had left")
	if r.cfg.plan().TLS && !rep.Plan.TLS {
		rep.Label = append(rep.Label, "without TLS: the scenario has it, and the address is ws://")
	}
}
