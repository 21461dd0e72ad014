package people

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

const (
	pageSize = 100 // events
	maxPages = 10  // of one view
	reason   = "an operator of a load run"

	silenceFor = 10 * time.Minute
	factPoll   = 50 * time.Millisecond
	factWithin = 30 * time.Second
)

// list pages through views of events: all, problems, one class, one node.
func (p *People) list(random *rand.Rand) func(context.Context) error {
	classes := p.Scenario.Agents
	member := 0
	views := []func() v1.EventFilter{
		func() v1.EventFilter { return v1.EventFilter{} },
		func() v1.EventFilter { return v1.EventFilter{Problem: true} },
		func() v1.EventFilter { return v1.EventFilter{Status: "critical"} },
		func() v1.EventFilter {
			return v1.EventFilter{Selector: simulated.ClassLabel + "=" + classes[random.IntN(len(classes))].Name}
		},
		func() v1.EventFilter {
			member = random.IntN(len(p.Members))
			return v1.EventFilter{Node: p.Run.Called(member)}
		},
	}
	f, pages := v1.EventFilter{}, maxPages
	return func(ctx context.Context) error {
		if f.After == "" || pages == maxPages {
			f, pages = views[random.IntN(len(views))](), 0
			f.Namespace, f.Limit = simulated.Namespace, pageSize
		}
		page, err := p.API.Events.List(ctx, f)
		f.After = page.Next
		pages++
		if err != nil && f.Node != "" && p.Run.Renamed(member, f.Node) {
			return errAbsent
		}
		return err
	}
}

// query sends each of the scenario's queries in turn.
func (p *People) query(*rand.Rand) func(context.Context) error {
	n := 0
	return func(ctx context.Context) error {
		n++
		return p.Queries[n%len(p.Queries)](ctx)
	}
}

// watch holds a stream of the problems of one class open, and opens it again where it breaks. Latency runs from the
// server's receipt of the change, by this machine's clock.
func (p *People) watch(ctx context.Context, i int) {
	class := &p.Scenario.Agents[i%len(p.Scenario.Agents)]
	f := v1.EventFilter{Namespace: simulated.Namespace, Selector: simulated.ClassLabel + "=" + class.Name, Problem: true}
	for ctx.Err() == nil {
		err := p.API.Events.Watch(ctx, f, func() error { return nil }, func(e v1.Event) error {
			took := int64(max(0, time.Since(e.Received)))
			p.note("watch", p.Time.Now()-took, took, nil)
			return nil
		})
		if ctx.Err() != nil {
			return // the run ended
		}
		p.note("watch", p.Time.Now(), 0, err)
		pause.For(ctx, time.Second)
	}
}

// apply writes groups without nodes.
func (p *People) apply(*rand.Rand) func(context.Context) error {
	n := 0
	return func(ctx context.Context) error {
		n++
		meta := model.Metadata{Name: fmt.Sprintf("operator-%02d", n%20), Namespace: simulated.Namespace, DisplayName: fmt.Sprintf("written %d times", n)}
		return simulated.Apply(ctx, p.API, reason, simulated.Resource(meta, &model.GroupSpec{Where: "false"}))
	}
}

// silence silences machines, without the checks whose notifications the run judges.
func (p *People) silence(random *rand.Rand) func(context.Context) error {
	return func(ctx context.Context) error {
		m := p.Members[random.IntN(len(p.Members))]
		return simulated.Apply(ctx, p.API, reason, simulated.Resource(model.Metadata{Name: "operator-" + m.Name, Namespace: simulated.Namespace}, &model.SilenceSpec{
			Selector: model.Selector{Targets: &model.Targets{Nodes: []string{m.Name}}, Checks: p.Quiet[m.Class]},
			Until:    model.Time{Time: time.Now().Add(silenceFor).Truncate(time.Second)},
			Reason:   "made by a load run",
		}))
	}
}

// runCommand runs a command at once on one machine, and waits for its end: a simulated machine reports it as done.
func (p *People) runCommand(random *rand.Rand) func(context.Context) error {
	return func(ctx context.Context) error {
		a := p.Machines[random.IntN(len(p.Machines))]
		name, here := a.Here()
		if !here {
			return errAbsent
		}
		ended := v1.RunLine{}
		err := p.API.Run(ctx, v1.RunRequest{Namespace: simulated.Namespace, Command: &model.Command{Shell: "true"}, Targets: &model.Targets{Nodes: []string{name}}, Yes: true}, func(l v1.RunLine) error {
			if l.Type == v1.RunDone || l.Type == v1.RunLost || l.Type == v1.RunRefused {
				ended = l
			}
			return nil
		})
		if now, _ := a.Here(); err != nil && now != name {
			return errAbsent
		}
		if err == nil && ended.Type != v1.RunDone && a.Stayed() {
			err = fmt.Errorf("on %s it was %q: %s", name, ended.Type, ended.Reason)
		}
		return err
	}
}

// changeFacts lets machines report another distribution, and measures the time until the server shows it. Machines do not
// wait for each other.
func (p *People) changeFacts(ctx context.Context, random *rand.Rand, rate float64) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	n := 0
	p.eachDue(ctx, "fact", random, rate, func(meant int64) bool {
		n++
		a, name := p.Machines[random.IntN(len(p.Machines))], fmt.Sprintf("load-%d", n)
		if a.Otherwise(map[string]string{"distribution": name}) {
			waiting.Go(func() { p.awaitFact(ctx, a, name, meant) })
		}
		return true
	})
}

// awaitFact waits until the server shows a distribution. It ends with the machine's session, whose successor reports all
// facts, and with a later change.
func (p *People) awaitFact(ctx context.Context, a Machine, name string, meant int64) {
	for until := meant + int64(factWithin); a.Says(name); pause.For(ctx, factPoll) {
		node, _ := a.Here()
		page, err := p.API.Nodes.States(ctx, v1.NodeFilter{Namespace: simulated.Namespace, Name: node, Limit: 1})
		now := p.Time.Now()
		shown := err == nil && len(page.Items) == 1 && slices.Contains(strings.Fields(page.Items[0].OS), name)
		if err == nil && !shown && now > until {
			err = fmt.Errorf("%s reported distribution %s, and after %s the server does not show it", node, name, factWithin)
		}
		switch {
		case ctx.Err() != nil:
			if now-meant > CutOff {
				p.giveUp("fact", p.Time.Virtual(meant), 0, 1)
			}
			return
		case shown || err != nil:
			p.note("fact", meant, now-meant, err)
			return
		}
	}
}
