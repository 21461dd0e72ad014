package load

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/preflight"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/pause"
)

// run is one run: its driver plays, and the run watches, writes the log and asks the judge.
type run struct {
	*clock.Clock
	cfg     Config
	driver  play.Driver
	fleet   *play.Fleet               // the driver of a run against Muster; nil: of another system
	target  *play.Targeted            // the driver of a run against another system; nil: of Muster
	version string                    // of that system
	metrics func() map[string]float64 // the server's; nil: it has none, or does not answer
	log     *observe.Log
	server  usage.Odometer
	waits   *play.Book                     // what people and agents wait for beside the results
	readers []play.Reader                  // of what the server has of values and directives
	heap    bool                           // the server's heap is in the log
	opened  int64                          // when the agents began to connect, ns
	script  *play.Script                   // what goes wrong while the timetable is played; nil: it is not
	lines   *streamed.Peer                 // nil: nobody is told of every result
	alarms  *alerts.Listener               // nil: no fault brings about alerts, or nobody could hear them
	stopped atomic.Pointer[report.Stopped] // nil: it was not, so far
	drained int64                          // when nothing was on its way any more, ns
	late    atomic.Int64                   // how late the order to end arrived, ns
	joined  []Joined                       // the other loaders of a run that this one leads
}

// Run plays one run and returns its report; a follower has none, for the lead judges its part. The error says why the
// run was not played: the configuration, the machine's limits, or no connection. A run that lost something
// or fell behind has a report, which says so.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	cfg.Bare = cmp.Or(cfg.Bare, Resident())
	r, err := readyRun(cfg)
	if err != nil {
		return nil, err
	}
	return r.do(ctx)
}

// Forever plays a scenario without measuring it until ctx ends. Agents that are not ready yet are waited for.
func Forever(ctx context.Context, cfg Config) error {
	r, err := readyRun(cfg)
	if err != nil {
		return err
	}
	return r.forever(ctx)
}

// Resident returns the memory of this process in bytes, after unused memory went back to the system.
func Resident() int64 {
	debug.FreeOSMemory()
	return usage.OfProcess(0).RSS
}

// readyRun returns a run after the checks of the machine.
func readyRun(cfg Config) (*run, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := preflight.Check(cfg.before()); err != nil {
		return nil, err
	}
	return newRun(cfg)
}

// newRun returns a run against Muster with its agents.
func newRun(cfg Config) (*run, error) {
	r := undriven(cfg)
	var err error
	if r.fleet, err = play.NewFleet(r.Clock, cfg.Options); err != nil {
		return nil, err
	}
	r.driver, r.readers, r.waits = r.fleet, r.fleet.Readers(), play.NewBook(r.Clock, report.SoleUnit(cfg.Scenario))
	r.fleet.Renamed = cfg.Joint.Renamed
	r.fleet.Changes = people.NewChanges(beside{r}, r.pipeline(scenario.Intent), cfg.API, cfg.Scenario, r.fleet.Directives, r.fleet.Machines())
	return r, nil
}

// undriven returns a run without a driver.
func undriven(cfg Config) *run {
	r := &run{Clock: clock.New(), cfg: cfg, metrics: func() map[string]float64 { return usage.Metrics(cfg.AdminURL) }}
	r.waits = play.NewBook(r.Clock, "")
	return r
}

// do plays the run and returns its report.
func (r *run) do(ctx context.Context) (_ *report.Report, err error) {
	rep := newReport(r.cfg)
	if err := r.describe(rep); err != nil {
		return nil, err
	}
	if err := r.expectUnused(ctx); err != nil {
		return nil, err
	}
	before, err := r.readBaseline(ctx)
	if err != nil {
		return nil, err
	}
	r.log = observe.NewLog(r.cfg.Observed, func(err error) {
		r.cfg.Log.Error("the observation log of this run cannot be written: make room before the run ends, or it may have no report", "error", err)
	})
	if r.cfg.Follows() {
		r.log = observe.NewCopied(r.cfg.Joint.Line)
	}
	r.log.Checks().OnSecond = r.seen
	defer func() { _ = r.log.Close() }() // of a run without a report
	idle := r.usage()
	var watching sync.WaitGroup
	live, stop := context.WithCancel(ctx)
	defer watching.Wait()
	defer stop()
	w := newWatch(r, rep)
	watching.Go(func() { w.watch(live) })
	if err := r.hear(ctx); err != nil {
		return nil, err
	}
	defer r.alarms.End()
	defer r.lines.End()
	if err := r.cfg.Joint.Connect(ctx, rep.Plan.Digest); err != nil {
		return nil, err
	}
	var house sync.WaitGroup
	defer house.Wait()
	r.opened = r.Now()
	defer r.driver.Open(ctx, r.ramp())()
	if err := r.waitReady(ctx, rep); err != nil {
		return nil, err
	}
	r.cfg.Joint.Hear(r.another, r.fleet.Rename)
	if err := rep.connected(ctx, r, idle); err != nil {
		return nil, err
	}
	r.alarms.Follow(ctx)

	if r.cfg.Begun != nil {
		r.cfg.Begun()
	}
	begin, err := r.beginning(ctx)
	if err != nil {
		return nil, err
	}
	r.logStart(rep, begin)
	p, err := r.perform(ctx, &house, begin)
	if err != nil {
		return nil, err
	}
	defer p.closeHouse()
	meanwhile := r.meanwhile(ctx, rep)
	p.playing.Wait()
	if r.cfg.Played != nil {
		r.cfg.Played()
	}
	meanwhile()
	watching.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	r.driver.Rest(ctx, r.cfg.drain())
	r.measureHeap(ctx)
	if r.cfg.Follows() {
		p.closeHouse()
		return nil, r.handOver(ctx, w)
	}
	if err := r.awaitMeasured(ctx); err != nil {
		return nil, err
	}
	r.drained = r.Now()
	r.concludeAlerts(ctx)
	ending, over := r.cfg.ending(ctx)
	rep.Streamed = r.lines.Conclude(ending)
	over()
	silence := r.calledSilent(ctx)
	p.closeHouse() // a keepalive under way would be missing
	unread := cmp.Or(r.settle(ctx, rep, before), r.readSignals(ctx))
	r.log.Append(observe.Line{Silence: silence})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.log.Append(observe.Line{RoundRobin: r.script.RoundRobin()})
	rep.Stopped = r.stopped.Load()
	w.finish()
	r.logMeasured(rep, textOf(unread), textOf(r.script.Failed()))
	if err := r.log.Close(); err != nil {
		rep.Label = append(rep.Label, notWhole(err))
	}
	return judge.Checks(r.log.Checks())
}

// notWhole returns the error of an observation log that could not be written.
func notWhole(err error) string {
	return fmt.Sprintf("the observation log is not whole, and the run cannot be judged again: %v", err)
}

// logStart writes the first lines of the log.
func (r *run) logStart(rep *reporting, begin int64) {
	rep.Goals = r.cfg.Goals
	head, s := *rep.Report, plan.NewTimetable(r.cfg.Scenario.Phases, 0)
	r.log.Append(observe.Line{Checked: &observe.Checked{Version: observe.Version, Report: &head, Seconds: time.Duration(s.End()).Seconds(),
		Opened: time.Duration(begin - r.opened).Seconds(), Ready: rep.ready, Startup: r.cfg.Startup}})
	r.log.Append(observe.Line{Score: s})
}

// logMeasured writes the last line of the log.
func (r *run) logMeasured(rep *reporting, unread, fault string) {
	m := &observe.Measured{Report: rep.Report, Drained: time.Duration(r.drained - r.Begin()).Seconds(), Senders: r.cfg.Senders, Spool: r.cfg.Spool, Intent: textOf(rep.intent), Fault: fault,
		Unread: unread}
	if r.fleet != nil {
		m.Renames = r.fleet.Renames()
	}
	if r.cfg.Fell != nil {
		m.Fell = r.cfg.Fell()
	}
	r.log.Append(observe.Line{At: r.SinceBegin(), Measured: m})
}

// textOf returns the text of an error, or an empty text for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// performance holds the goroutines that play the timetable.
type performance struct {
	playing    sync.WaitGroup // agents and script
	closeHouse context.CancelFunc
}

// perform plays the timetable from a time on, and sends ticks and keepalives meanwhile.
func (r *run) perform(ctx context.Context, house *sync.WaitGroup, begin int64) (*performance, error) {
	r.Follow(plan.NewTimetable(r.cfg.Scenario.Phases, begin))
	r.driver.Deal()
	r.Start(begin)
	p := &performance{}
	if r.fleet != nil {
		var err error
		if r.script, err = r.fleet.NewScript(); err != nil {
			return nil, err
		}
		r.script.Append, r.script.AwaitServer = r.log.Append, r.waitServing
		r.script.ServerEnds = func(ctx context.Context) {
			r.measureHeap(ctx)
			r.usage()
		}
		p.playing.Go(func() { r.script.Play(ctx) })
	}
	p.playing.Go(func() { r.driver.Play(ctx) })
	keeping, closeHouse := context.WithCancel(ctx)
	p.closeHouse = closeHouse
	house.Go(func() { r.driver.KeepHouse(keeping) })
	return p, nil
}

// forever plays the run until ctx ends, after all agents hold their checks.
func (r *run) forever(ctx context.Context) error {
	var house sync.WaitGroup
	defer house.Wait()
	r.driver.Deal()
	defer r.driver.Open(ctx, r.ramp())()
	for _, ready := r.driver.Ready(); ready < r.own(); _, ready = r.driver.Ready() {
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return nil
		}
	}
	house.Go(func() { r.driver.KeepHouse(ctx) })
	r.Follow(plan.Forever(r.Now(), plan.Never))
	r.driver.Play(ctx)
	return nil
}

// waitReady waits until every agent has a session and its checks.
func (r *run) waitReady(ctx context.Context, rep *reporting) error {
	n := r.own()
	began := time.Now()
	idle, last := began, -1
	for {
		connected, ready := r.driver.Ready()
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
		if err := r.driver.Stuck(time.Since(idle), r.ramp()); err != nil {
			return err
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// own returns the number of agents that this process plays.
func (r *run) own() int { return r.cfg.Part.Share(len(r.cfg.Members)) }

// ramp returns the time over which agents connect one after the other.
func (r *run) ramp() time.Duration {
	if p := r.cfg.Scenario.Phases; len(p) > 0 {
		return time.Duration(p[0].Ramp)
	}
	return 0
}

// describe adds the plan, or the target, to the report.
func (r *run) describe(rep *reporting) (err error) {
	if r.target != nil {
		r.describeTarget(rep)
		return nil
	}
	rep.Plan.Digest, err = r.fleet.PlanDigest()
	return err
}

// hear starts the listeners for alerts and for the lines of a stream, if the run has some.
func (r *run) hear(ctx context.Context) (err error) {
	if r.fleet == nil {
		return nil
	}
	if r.alarms, err = r.fleet.HearAlerts(ctx); err == nil {
		r.lines, err = r.fleet.HearStream(ctx)
	}
	return err
}

// pipeline returns the clock of a pipeline.
func (r *run) pipeline(name string) clock.Pipeline {
	return clock.Pipeline{Clock: r.Clock, Name: name, Phases: r.cfg.Scenario.Phases}
}
