package load

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// operate plays the scenario's API users until ctx ends.
func (r *run) operate(ctx context.Context) []report.Worked {
	if r.cfg.API == nil {
		return nil // said by leftUndone
	}
	p := &people.People{Run: beside{r, scenario.People}, API: r.cfg.API, Scenario: r.cfg.Scenario, Members: r.cfg.Members, Machines: r.machines(), Quiet: r.unheard()}
	for _, reader := range r.readers {
		p.Queries = append(p.Queries, reader.Query)
	}
	return p.Work(ctx)
}

// machines returns the agents of this process.
func (r *run) machines() []people.Machine {
	list := make([]people.Machine, len(r.agents))
	for i, a := range r.agents {
		list[i] = a
	}
	return list
}

// beside gives API users and changes of intent access to the run, in the virtual time of their pipeline.
type beside struct {
	run      *run
	pipeline string
}

func (b beside) Now() int64                            { return b.run.now() }
func (b beside) Meant(virtual int64) int64             { return b.run.tempo(b.pipeline).meant(virtual) }
func (b beside) Begin() int64                          { return b.run.begin.Load() }
func (b beside) Zero() int64                           { return b.run.present().zero() }
func (b beside) End() int64                            { return b.run.present().end() }
func (b beside) Append(x *observe.Intent)              { b.run.log.Append(observe.Line{Intent: x}) }
func (b beside) Virtual(at int64) int64                { return b.run.tempo(b.pipeline).virtual(at) }
func (b beside) Waited(what string, meant, took int64) { b.run.waited(what, meant, took, 1) }
func (b beside) Away(from, to int64) bool              { return b.run.script.away(from, to) }
func (b beside) Called(member int) string              { return b.run.nameOf(member) }

func (b beside) Renamed(member int, name string) bool {
	b.run.mu.Lock()
	soon := b.run.renaming[member]
	b.run.mu.Unlock()
	return soon || b.run.nameOf(member) != name
}

// Here returns the present name of the machine's node, and whether it has a session.
func (a *agent) Here() (name string, here bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.name, a.session != nil
}

// Class returns the class of the machine.
func (a *agent) Class() *scenario.Class { return a.class.spec }

// Held returns the assignment of the machine, and the time since which it has it.
func (a *agent) Held() (held *link.Assignment, since int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.assigned, a.assignedAt
}

// Stayed reports whether the machine has a session for longer than judge.Slack.
func (a *agent) Stayed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session != nil && a.run.now()-a.since > judge.Slack
}

// Otherwise sends the server other facts; it returns false if the machine has no session.
func (a *agent) Otherwise(facts map[string]string) bool {
	a.mu.Lock()
	s := a.session
	a.facts = facts // the next session begins with them
	a.mu.Unlock()
	return s != nil && s.SendFacts(&wire.Facts{Facts: facts}) == nil
}

// Says reports whether distribution is the last one that the machine sent in its present session.
func (a *agent) Says(distribution string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session != nil && a.facts["distribution"] == distribution
}

// unheard returns by class the checks whose alerts the run does not judge, and the keepalive: users may silence these.
// Nil for a class means all its checks.
func (r *run) unheard() [][]string {
	heard, list := alerts.Listened(r.cfg.Scenario), make([][]string, len(r.classes))
	for i, c := range r.classes {
		own, some := []string{model.KeepaliveCheckName}, false
		for _, k := range c.checks {
			if heard[k.full] != "" {
				some = true
			} else {
				own = append(own, k.full)
			}
		}
		if some {
			list[i] = own
		}
	}
	return list
}

// meanwhile starts API users and changes of intent; the returned function stops them and adds them to the report.
func (r *run) meanwhile(ctx context.Context, rep *reporting) func() {
	while, end := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { rep.Operators = r.operate(while) })
	both.Go(func() { rep.intent = r.changes.Play(while, ctx) })
	return func() {
		end()
		both.Wait()
		r.changes.Await(ctx)
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
	list = append(list, "whether healthy machines were called silent was not judged: there was no login")
	if len(sc.Intent) > 0 {
		list = append(list, "intent was not changed: there was no login")
	}
	if sc.Operators.Any() {
		list = append(list, "operators did nothing: there was no login")
	}
	if sc.HasAlerts() {
		list = append(list, "nobody was notified of problems: there was no login")
	}
	if sc.Stream != nil {
		list = append(list, "no handler was notified of every result: there was no login")
	}
	if stopping(sc) || len(alerts.Failing(sc)) > 0 {
		list = append(list, "alerts of the faults were not judged: there was no login")
	}
	return list
}
