package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/preflight"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// Target is a system other than Muster that schedules the checks itself: it asks its agents for results. RunTarget
// calls its methods in this order, except Totals, which it calls at any time.
type Target interface {
	// Name is the system's, as a scenario's target has it.
	Name() string
	// Secured says whether its agents' connections have TLS.
	Secured() bool
	// Prepare makes what the agents need there, and says which version it is.
	Prepare(ctx context.Context) (version string, err error)
	// Agents are the scenario's, not yet connected. They tell observe of every result
	// that has left, from many goroutines.
	Agents(observe func(Observed)) []TargetAgent
	// Totals sums what the agents counted so far.
	Totals() report.Totals
	// Compare asks the system what it holds, with the agents at rest, and tells differ of
	// each state that is not as the agents left it. kept results are there.
	Compare(ctx context.Context, differ func(i report.Imbalance, problem string)) (states int, kept uint64, err error)
	// Clean removes what Prepare made and would go on by itself.
	Clean(ctx context.Context) error
}

// TargetAgent is one simulated agent of a target.
type TargetAgent interface {
	Run(ctx context.Context) // connects, and comes back by itself, until ctx ends
	Rest()                   // stays connected; makes no more results
	Trouble() error          // why it is not connected; nil: it is, or nothing went wrong
}

// Found describes a running target.
type Found struct {
	Target  Target
	Hosts   []string // host:port of each address that agents connect to
	System  string   // before the version in a title
	Program string   // whose version it is
}

// Observed is one result that an agent sent.
type Observed struct {
	Intended time.Time // when it was meant to be made: when the system asked for it
	Due      time.Time // when the agent knew of that
	Left     time.Time // when its connection had taken it whole
}

// whatever reports whether a figure means the same for every target; the others depend on acknowledgements or on
// metrics of Muster.
func whatever(figure string) bool {
	return slices.Contains([]string{"rate", "connect", "machine", "server-cpu", "loader-memory"}, figure)
}

// TargetPlays returns an Unsupported error if RunTarget cannot play a scenario against a target, else nil.
func TargetPlays(sc *scenario.Scenario, t Target) error {
	plays := []string{"results", "keepalives", "output-sizes", "tls", "fleet-of-servers"} // the addresses decide about TLS, and there may be several
	return sc.Refused(plays, "target "+t.Name(), "the system under test keeps the time, and its agents only answer", "a scenario with a ramp, steady phases and a drain: muster load show sensu-4000x8x5s")
}

// leaveOut removes goals whose figure cannot be measured, and returns labels that say so.
func (c *Config) leaveOut(measured func(figure string) bool, against string) (labels []string) {
	var left []string
	c.Goals = slices.DeleteFunc(slices.Clone(c.Goals), func(g report.Goal) bool {
		if measured(g.Name) {
			return false
		}
		left = append(left, g.Name)
		return true
	})
	if slices.Sort(left); len(left) > 0 {
		labels = []string{fmt.Sprintf("not measured against %s, and not judged: %s", against, strings.Join(slices.Compact(left), ", "))}
	}
	return labels
}

// RunTarget plays a scenario's ramp, steady phases and drain against another system, and compares what that holds
// with what was sent.
//
// Of the configuration, Scenario, Goals, MaxLag, ServerPID, Stop, Begun, Played and Progress count, AdminURL,
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
	r := undriven(c)
	r.driver = &targeted{run: r, target: t, version: version}
	rep, err = r.do(ctx)
	cleaning, over := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer over()
	if bad := t.Clean(cleaning); bad != nil && rep != nil {
		rep.Label = append(rep.Label, fmt.Sprintf("what the run made on %s is not all gone: %v", t.Name(), bad))
	}
	return rep, err
}

// asked fills in the configuration of a run against a target.
func (c Config) asked(t Target) (Config, error) {
	c.Members = simulated.Members(c.Scenario)
	c.Sources = (len(c.Members) + 19_999) / 20_000 // as its agents do on loopback
	c.MaxLag = cmp.Or(c.MaxLag, report.UsualLag)
	c.Joint, c.Bare, c.API, c.Before = Alone{}, Resident(), nil, nil
	// The objective loader-memory is of Muster's agents: others take more, and --goal asks it of them.
	if err := c.takeObjectives([]string{"loader-memory"}); err != nil {
		return c, err
	}
	c.labels = c.leaveOut(whatever, t.Name())
	return c, nil
}

// targeted is the driver of runs against a Target.
type targeted struct {
	*run
	target  Target
	version string
	agents  []TargetAgent
	book    *book
}

// describe adds the target and its limits to the report.
func (d *targeted) describe(rep *reporting) error {
	rep.Targeted = &report.Targeted{Name: d.target.Name(), Version: d.version}
	rep.Label = append(rep.Label, fmt.Sprintf("target: %s %s", d.target.Name(), d.version),
		"steady phases only: no other rates, steps, churn, faults, operators and intent are played; beside a run of the same scenario against Muster stand results, ledger and what was used, not latency",
		"nothing is acknowledged: latency is from a request's time of issue, in whole seconds, until its result had left")
	if rep.Plan.TLS && !d.target.Secured() {
		rep.Label = append(rep.Label, "without TLS: the scenario has it, and the address is ws://")
	}
	rep.Plan.TLS = d.target.Secured()
	return nil
}

// open starts the agents of the target.
func (d *targeted) open(ctx context.Context) (leave func()) {
	live, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	d.book = newBook(d.run)
	d.senders = []*sender{{run: d.run, book: d.book}} // it sends nothing: agents answer
	d.agents = d.target.Agents(d.observe)
	d.evenly(live, &all, func(i int) { d.agents[i].Run(live) })
	return func() {
		stop()
		all.Wait()
	}
}

// observe counts a result in the part of the timetable in which it left.
func (d *targeted) observe(o Observed) {
	d.book.mu.Lock()
	defer d.book.mu.Unlock()
	t := d.book.of("", d.present().at(int64(o.Left.Sub(d.epoch))))
	t.Results++
	t.Acked++
	t.InTime++
	t.Current++
	t.Frames++
	t.Whole.Record(int64(o.Left.Sub(o.Intended)), 1)
	t.Lag.Record(int64(o.Left.Sub(o.Due)), 1)
	t.Batches.Record(1000, 1) // one result is one frame
}

// ready returns how many agents are connected, and how many are registered.
func (d *targeted) ready() (connected, ready int) {
	t := d.target.Totals()
	return t.Connected, t.Ready
}

// stuck returns an error if agents make no progress for minutes, because a backend may need minutes for a thousand
// agents at once.
func (d *targeted) stuck(idle time.Duration) error {
	_, ready := d.ready()
	if idle < 30*time.Second || ready > 0 && idle < 5*time.Minute {
		return nil
	}
	why := "no answer"
	for _, a := range d.agents {
		if err := a.Trouble(); err != nil {
			why = err.Error()
		}
	}
	return model.Errorf(model.Unavailable, "%d of %d agents are registered; the others: %s", ready, len(d.agents), why)
}

// sessions returns the number of open sessions and of failed attempts.
func (d *targeted) sessions() (open int, failed uint64) {
	t := d.target.Totals()
	return t.Connected, t.Failed
}

// play counts, for each second, the results that the target should ask for.
func (d *targeted) play(ctx context.Context) {
	begin, rate := d.begin.Load(), d.cfg.Scenario.Rate()
	for second := 0; ctx.Err() == nil; second++ {
		at := begin + int64(second)*int64(time.Second)
		rest := min(time.Second, time.Duration(d.present().end()-at))
		if rest <= 0 {
			return
		}
		d.book.offer(second, uint32(rate*rest.Seconds()))
		_ = pause.For(ctx, d.until(time.Duration(at)+rest))
	}
}

// rest lets the agents send no more results.
func (d *targeted) rest(context.Context) {
	for _, a := range d.agents {
		a.Rest()
	}
}

// settle compares the target's events with the sent results until they agree or the drain is over.
func (d *targeted) settle(ctx context.Context, rep *reporting, _ observe.States) error {
	ctx, over := d.cfg.ending(ctx)
	defer over()
	end := time.Now().Add(d.cfg.drain())
	for {
		b := &report.Balance{}
		states, kept, err := d.target.Compare(ctx, func(i report.Imbalance, problem string) {
			b.Differ++
			b.Add(i, "%s", problem)
		})
		t := d.target.Totals()
		if err != nil {
			rep.Balance, rep.Targeted.Totals = &report.Balance{Sent: t.Sent, Unsure: t.Sent}, t
			return becauseOf(ctx, err)
		}
		b.Sent, b.Acknowledged, b.Compared, b.Unsure = t.Sent, kept, states, t.Sent-t.Written
		b.Missing = t.Written - min(kept, t.Written)
		rep.Balance, rep.Targeted.Totals, rep.States = b, t, uint64(states)
		if b.OK() || time.Now().After(end) {
			return nil
		}
		if err := pause.For(ctx, min(time.Second, d.cfg.drain()/4)); err != nil {
			return nil // the last comparison counts
		}
	}
}
