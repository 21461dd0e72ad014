package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/preflight"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// run is the shared state of a run.
type run struct {
	fleet
	timetable
	sessions
	joint

	cfg     Config
	driver  driver
	epoch   time.Time
	bootID  string
	metrics func() map[string]float64 // the server's; nil: it has none, or does not answer
	connect func(ctx context.Context, cfg *link.Config, addr string, hello *wire.Hello, assigned *link.Assignment, a *agent) (session, error)
	log     *observe.Log // of a run that leads
	server  usage.Odometer
	beside  book          // what people and agents wait for beside the results
	wrong   atomic.Uint64 // results sent that must be refused
	taken   taken
	changes *people.Changes // of intent; nil: it stays
	plans   judge.Signals   // of values and directives
	readers []play.Reader   // of what the server has of them
	unit    report.Unit     // of what agents send, if they send nothing but values, or nothing but runs of directives
	heap    bool            // the server's heap is in the log
	frames  sync.Pool       // *frame
	scratch sync.Pool       // *[]byte, for outputs and for frames as they are sent

	mu          sync.Mutex
	definitions map[model.DefinitionID]*model.Definition
	breaches    breaches
	lines       *streamed.Peer    // nil: nobody is told of every result
	alarms      *alerts.Listener  // nil: no fault brings about alerts, or nobody could hear them
	failures    map[string]uint64 // why connections could not be opened
	losses      map[string]uint64 // why sessions ended
	renames     renames
}

// fleet holds the machines of a run.
type fleet struct {
	classes []*class
	states  uint64   // of the whole fleet
	agents  []*agent // all that this process plays
	seats   []*agent // by member of the fleet; nil: another loader plays it
}

// timetable holds the plan of a run and its progress.
type timetable struct {
	senders []*sender
	steps   bool // the score may change while it is played
	storms  bool // some phase speeds alerts up …
	score   atomic.Pointer[score]
	begin   atomic.Int64                   // of the timetable that is measured, ns; zero: not yet
	script  *faultScript                   // what goes wrong while the timetable is played; nil: it is not
	stopped atomic.Pointer[report.Stopped] // nil: it was not, so far
	drained int64                          // when nothing was on its way any more, ns
}

// sessions counts the sessions of all agents of this process.
type sessions struct {
	opening   chan struct{} // one token per connection being opened
	opened    int64         // when the agents began to connect, ns
	connected atomic.Int64  // sessions now
	accounted atomic.Int64  // agents that have a session, or whose session the scenario ended
	first     atomic.Int64  // agents welcomed at least once
	ready     atomic.Int64  // agents that hold all their checks
	slowed    atomic.Int64  // times that an agent became slow
	traffic   traffic
}

// joint holds what a run of several loaders needs.
type joint struct {
	late     atomic.Int64   // how late the order to end arrived, ns
	joined   []Joined       // followers
	renaming map[int]bool   // nodes that the API was asked to rename, by member: it has not answered yet
	renamed  map[int]string // nodes of other loaders that have another name now, by member
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

// newRun returns a run with its agents and driver.
func newRun(cfg Config) (*run, error) {
	classes, err := newClasses(&cfg)
	if err != nil {
		return nil, err
	}
	r := undriven(cfg)
	r.classes, r.driver, r.unit = classes, muster{r}, report.SoleUnit(cfg.Scenario)
	if err := r.populate(); err != nil {
		return nil, err
	}
	r.changes = people.NewChanges(beside{r, scenario.Intent}, cfg.API, cfg.Scenario, r.plans.Directives, r.machines())
	return r, nil
}

// undriven returns a run without agents and driver.
func undriven(cfg Config) *run {
	r := &run{cfg: cfg, epoch: time.Now(), bootID: uuid.NewString(), definitions: map[model.DefinitionID]*model.Definition{},
		failures: map[string]uint64{}, losses: map[string]uint64{}}
	r.opening, r.renaming, r.renamed = make(chan struct{}, cfg.Parallel), map[int]bool{}, map[int]string{}
	r.frames.New = func() any { return new(frame) }
	r.scratch.New = func() any { b := make([]byte, 0, 4096); return &b }
	r.metrics = func() map[string]float64 { return usage.Metrics(cfg.AdminURL) }
	r.connect = func(ctx context.Context, cfg *link.Config, addr string, hello *wire.Hello, assigned *link.Assignment, a *agent) (session, error) {
		return link.Open(ctx, cfg, addr, hello, assigned, a)
	}
	for _, p := range cfg.Scenario.Phases {
		r.steps, r.storms = r.steps || p.Step > 0, r.storms || p.Speed(scenario.Alerts) > 1
	}
	return r
}

// present returns the present timetable.
func (r *run) present() score {
	if s := r.score.Load(); s != nil {
		return *s
	}
	return nil
}

// follow replaces the timetable.
func (r *run) follow(s score) { r.score.Store(&s) }

// sequence returns the sequence number of a result, unique in the run and the same for the same plan.
func (r *run) sequence(state uint64, cycle uint32) uint64 {
	return uint64(cycle)*r.states + state
}

// now returns the time in ns since the run was made.
func (r *run) now() int64 { return int64(time.Since(r.epoch)) }

// bootedBefore is for how long the agents' machines run when the run is made.
const bootedBefore = time.Minute

// boot returns the agents' boot clock, as if all machines had booted some time before the run.
func (r *run) boot() uint64 { return r.bootMs(r.now()) }

// bootMs converts a time of the run to the agents' boot clock, in ms.
func (r *run) bootMs(ns int64) uint64 { return uint64((ns + int64(bootedBefore)) / 1e6) }

// definition decodes a definition, once for all agents.
func (r *run) definition(id model.DefinitionID, body []byte) (*model.Definition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.definitions[id]; c != nil && c.Hash == wire.DefinitionHash(body) {
		return c, nil
	}
	c, err := wire.DecodeDefinition(id, body)
	if err == nil {
		r.definitions[id] = c
	}
	return c, err
}

// failed counts an error of opening a session.
func (r *run) failed(a *agent, err error) {
	r.mu.Lock()
	r.failures[cause(err)]++
	r.mu.Unlock()
	r.cfg.Log.Debug("no session", "agent", a.called(), "error", err)
}

// lost counts an error that ended a session.
func (r *run) lost(a *agent, err error) {
	if err == nil {
		err = errors.New("closed")
	}
	r.mu.Lock()
	r.losses[cause(err)]++
	r.mu.Unlock()
	r.cfg.Log.Debug("session ended", "agent", a.called(), "error", err)
}

// do plays the run and returns its report.
func (r *run) do(ctx context.Context) (_ *report.Report, err error) {
	rep := newReport(r.cfg)
	if err := r.driver.describe(rep); err != nil {
		return nil, err
	}
	if err := r.expectUnused(ctx); err != nil {
		return nil, err
	}
	before, err := r.readBaseline(ctx)
	if err != nil {
		return nil, err
	}
	r.log = observe.NewLog(r.cfg.Observed)
	if r.cfg.follows() {
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
	if r.alarms, err = r.hearAlerts(ctx); err != nil {
		return nil, err
	}
	defer r.alarms.End()
	if r.lines, err = r.hearStream(ctx); err != nil {
		return nil, err
	}
	defer r.lines.End()
	if err := r.cfg.Joint.Connect(ctx, rep.Plan.Digest); err != nil {
		return nil, err
	}
	var house sync.WaitGroup
	defer house.Wait()
	defer r.driver.open(ctx)()
	if err := r.waitReady(ctx, rep); err != nil {
		return nil, err
	}
	r.cfg.Joint.Hear(r.another, r.renamedTo)
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

	r.driver.rest(ctx)
	r.measureHeap(ctx)
	if r.cfg.follows() {
		p.closeHouse()
		return nil, r.handOver(ctx, w)
	}
	if err := r.awaitMeasured(ctx); err != nil {
		return nil, err
	}
	r.drained = r.now()
	r.concludeAlerts(ctx, p.script)
	ending, over := r.cfg.ending(ctx)
	rep.Streamed = r.lines.Conclude(ending)
	over()
	silence := r.calledSilent(ctx)
	p.closeHouse() // a keepalive under way would be missing
	unread := cmp.Or(r.driver.settle(ctx, rep, before), r.readSignals(ctx))
	r.log.Append(observe.Line{Silence: silence})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.log.Append(observe.Line{RoundRobin: r.roundRobin(p.script)})
	rep.Stopped = r.stopped.Load()
	w.finish()
	r.logMeasured(rep, textOf(unread), textOf(p.script.failed()))
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
	head, s := *rep.Report, newScore(r.cfg.Scenario.Phases, 0)
	r.log.Append(observe.Line{Checked: &observe.Checked{Version: observe.Version, Report: &head, Seconds: time.Duration(s.end()).Seconds(),
		Opened: time.Duration(begin - r.opened).Seconds(), Ready: rep.ready, Startup: r.cfg.Startup}})
	r.log.Append(observe.Line{Score: s})
}

// logMeasured writes the last line of the log.
func (r *run) logMeasured(rep *reporting, unread, fault string) {
	m := &observe.Measured{Report: rep.Report, Drained: time.Duration(r.drained - r.begin.Load()).Seconds(), Senders: r.cfg.Senders, Spool: r.cfg.Spool, Intent: textOf(rep.intent), Fault: fault,
		Renames: r.renames.String(), Unread: unread}
	if r.cfg.Fell != nil {
		m.Fell = r.cfg.Fell()
	}
	r.log.Append(observe.Line{At: r.sinceStart(), Measured: m})
}

// textOf returns the text of an error, or an empty text for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sinceStart returns the time since the start of the timetable.
func (r *run) sinceStart() time.Duration { return time.Duration(r.now() - r.begin.Load()) }

// performance holds the goroutines that play the timetable.
type performance struct {
	script     *faultScript
	playing    sync.WaitGroup // agents and script
	closeHouse context.CancelFunc
}

// perform plays the timetable from a time on, and sends ticks and keepalives meanwhile.
func (r *run) perform(ctx context.Context, house *sync.WaitGroup, begin int64) (*performance, error) {
	r.follow(newScore(r.cfg.Scenario.Phases, begin))
	r.deal()
	script, err := r.newScript()
	if err != nil {
		return nil, err
	}
	r.script = script
	r.begin.Store(begin)
	p := &performance{script: script}
	p.playing.Go(func() { r.driver.play(ctx) })
	p.playing.Go(func() { script.play(ctx) })
	keeping, closeHouse := context.WithCancel(ctx)
	p.closeHouse = closeHouse
	house.Go(func() { r.keepHouse(keeping) })
	return p, nil
}

// until returns the duration until a time of the run.
func (r *run) until(at time.Duration) time.Duration { return at - time.Duration(r.now()) }

// deal divides the agents between the senders, and gives each sender a book of its own.
func (r *run) deal() {
	shares := make([][]*agent, r.cfg.Senders)
	for i, a := range r.agents {
		shares[i%len(shares)] = append(shares[i%len(shares)], a)
	}
	for _, agents := range shares {
		s := newSender(r, agents)
		for _, a := range agents {
			a.mu.Lock()
			a.book, a.inbox = s.book, s.inbox
			a.mu.Unlock()
		}
		r.senders = append(r.senders, s)
	}
}
