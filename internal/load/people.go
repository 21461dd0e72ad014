package load

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/pause"
)

// operate plays the scenario's API users until ctx ends.
func (r *run) operate(ctx context.Context) []report.Worked {
	if r.cfg.API == nil {
		return nil // said by leftUndone
	}
	p := &people.People{Run: beside{r}, Time: r.pipeline(scenario.People), API: r.cfg.API, Scenario: r.cfg.Scenario, Members: r.cfg.Members, Machines: r.fleet.Machines(), Quiet: r.fleet.Unheard()}
	for _, reader := range r.readers {
		p.Queries = append(p.Queries, reader.Query)
	}
	return p.Work(ctx)
}

// beside gives API users and changes of intent access to the run.
type beside struct{ *run }

func (b beside) Append(x *observe.Intent)              { b.log.Append(observe.Line{Intent: x}) }
func (b beside) Waited(what string, meant, took int64) { b.waits.Waited(what, meant, took) }
func (b beside) Away(from, to int64) bool              { return b.script.Away(from, to) }
func (b beside) Called(member int) string              { return b.fleet.Called(member) }
func (b beside) Renamed(member int, name string) bool {
	return b.fleet.Renaming(member) || b.Called(member) != name
}

// meanwhile starts API users and changes of intent; the returned function stops them and adds them to the report.
func (r *run) meanwhile(ctx context.Context, rep *reporting) func() {
	if r.fleet == nil {
		return func() {}
	}
	while, end := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { rep.Operators = r.operate(while) })
	both.Go(func() { rep.intent = r.fleet.Changes.Play(while, ctx) })
	return func() {
		end()
		both.Wait()
		r.fleet.Changes.Await(ctx)
		if !rep.Asked() {
			rep.Label = append(rep.Label, r.leftUndone()...)
		}
	}
}

// leftUndone lists the parts of the scenario that were not played because there is no login.
func (r *run) leftUndone() (list []string) {
	sc := r.cfg.Scenario
	if r.cfg.API != nil {
		return nil
	}
	for _, x := range []struct {
		has  bool
		text string
	}{
		{true, "whether healthy machines were called silent was not judged"},
		{len(sc.Intent) > 0, "intent was not changed"},
		{sc.Operators.Any(), "operators did nothing"},
		{sc.HasAlerts(), "nobody was notified of problems"},
		{sc.Stream != nil, "no handler was notified of every result"},
		{play.Stops(sc) || len(alerts.Failing(sc)) > 0, "alerts of the faults were not judged"},
	} {
		if x.has {
			list = append(list, x.text+": there was no login")
		}
	}
	return list
}

// patience limits the wait for missing alerts after the last one that came, because the server retries a failed
// delivery after seconds.
const patience = 15 * time.Second

// concludeAlerts waits until all expected alerts came, or none came for a while, then stops watching the machines.
func (r *run) concludeAlerts(ctx context.Context) {
	if r.alarms == nil {
		return
	}
	ctx, over := r.cfg.ending(ctx)
	defer over()
	for began := r.Now(); ctx.Err() == nil && r.alarms.Quiet(began) <= patience && r.alertsMissing(); {
		pause.For(ctx, 200*time.Millisecond)
	}
	r.alarms.Unfollow()
	r.log.Append(observe.Line{Alerts: r.script.Alerts(r.alarms)})
}

// alertsMissing reports whether an expected alert has not come yet.
func (r *run) alertsMissing() bool {
	seen := r.script.Alerts(r.alarms)
	return judge.Alerts(seen, nil) > 0 || judge.Messages(seen, r.Since, nil).Missing > 0
}
