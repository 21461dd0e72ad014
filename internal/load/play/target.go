package play

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// Target is a system other than Muster that schedules the checks itself: it asks its agents for results. A run
// calls its methods in this order, except Totals, which it calls at any time.
type Target interface {
	// Name is the system's, as a scenario's target has it.
	Name() string
	// Secured says whether its agents' connections have TLS.
	Secured() bool
	// Prepare makes what the agents need there, and says which version it is.
	Prepare(ctx context.Context) (version string, err error)
	// Agents are the scenario's, not yet connected. They tell observe of every result that has left, from many goroutines: when
	// the system asked for it, when the agent knew of that, and when its connection had taken it whole.
	Agents(observe func(intended, due, left time.Time)) []TargetAgent
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

// Targeted is the driver of runs against a Target. Its Fleet has no machines, and does nothing: timetable, signs of life and
// sessions are the target's.
type Targeted struct {
	Target
	*Fleet
	agents []TargetAgent
	book   *Book
}

// NewTargeted returns the driver of a run against a target that is prepared.
func NewTargeted(clock *clock.Clock, o Options, t Target) *Targeted {
	return &Targeted{Target: t, Fleet: &Fleet{Clock: clock, cfg: o}, book: NewBook(clock, "")}
}

// Open implements Driver.
func (d *Targeted) Open(ctx context.Context, over time.Duration) (leave func()) {
	live, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	since := func(t time.Time) int64 { return int64(t.Sub(d.Epoch)) }
	d.agents = d.Agents(func(intended, due, left time.Time) { d.book.Sent(since(intended), since(due), since(left)) })
	Evenly(live, &all, &d.cfg, over, func(i int) { d.agents[i].Run(live) })
	return func() {
		stop()
		all.Wait()
	}
}

// Ready implements Driver: an agent is ready when it is registered.
func (d *Targeted) Ready() (connected, ready int) {
	t := d.Totals()
	return t.Connected, t.Ready
}

// Stuck implements Driver. It waits for minutes, because a backend may need minutes for a thousand agents at once.
func (d *Targeted) Stuck(idle, _ time.Duration) error {
	_, ready := d.Ready()
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

// Sessions implements Driver.
func (d *Targeted) Sessions() (open int, failed uint64) {
	t := d.Totals()
	return t.Connected, t.Failed
}

// Play counts, for each second, the results that the target should ask for.
func (d *Targeted) Play(ctx context.Context) {
	begin, rate := d.Begin(), d.cfg.Scenario.Rate()
	for second := 0; ctx.Err() == nil; second++ {
		at := begin + int64(second)*int64(time.Second)
		rest := min(time.Second, time.Duration(d.Present().End()-at))
		if rest <= 0 {
			return
		}
		d.book.Offer(second, uint32(rate*rest.Seconds()))
		_ = pause.For(ctx, d.Until(at+int64(rest)))
	}
}

// Rest lets the agents send no more results.
func (d *Targeted) Rest(context.Context, time.Duration) {
	for _, a := range d.agents {
		a.Rest()
	}
}

// Books implements Driver.
func (d *Targeted) Books() []*Book { return []*Book{d.book} }
