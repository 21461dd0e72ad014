package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// unheard are, by class, the checks whose messages the run does not listen to, and the
// keepalive: what people may silence. Nil for a class: all of them.
func (r *run) unheard() [][]string {
	heard, list := listened(r.cfg.Scenario), make([][]string, len(r.classes))
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

// runNow has one machine after the other run a command at once, and waits for its end: a
// simulated machine says that it runs nothing.
func (p *people) runNow(ctx context.Context, random *rand.Rand, rate float64) {
	p.atRate(ctx, "run", random, rate, func() error {
		a := p.run.agents[random.IntN(len(p.run.agents))]
		a.mu.Lock()
		name, away := a.name, a.session == nil
		a.mu.Unlock()
		if away {
			return nil // nobody would answer, and it is not the server's doing
		}
		ended := v1.RunLine{}
		err := p.api.Run(ctx, v1.RunRequest{Namespace: simulated.Namespace, Command: &model.Command{Shell: "true"}, Targets: &model.Targets{Nodes: []string{name}}, Yes: true}, func(l v1.RunLine) error {
			if l.Type == v1.RunDone || l.Type == v1.RunLost || l.Type == v1.RunRefused {
				ended = l
			}
			return nil
		})
		if err == nil && ended.Type != v1.RunDone && a.stayed() {
			err = fmt.Errorf("on %s it was %q: %s", name, ended.Type, ended.Why)
		}
		return err
	})
}

// stayed says whether a machine has a session, and had it for a while.
func (a *agent) stayed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session != nil && a.run.now()-a.since > slack
}

// otherFacts has one machine after the other say that its distribution is another one, and looks
// when the server shows it. No machine waits for another.
func (p *people) otherFacts(ctx context.Context, random *rand.Rand, rate float64) {
	var looking sync.WaitGroup
	defer looking.Wait()
	n := 0
	p.eachDue(ctx, "fact", random, rate, func(meant int64) bool {
		n++
		a, name := p.run.agents[random.IntN(len(p.run.agents))], fmt.Sprintf("load-%d", n)
		if a.otherwise(map[string]string{"distribution": name}) {
			looking.Go(func() { p.lookFor(ctx, a, name, meant) })
		}
		return true
	})
}

// lookFor waits until the server shows the distribution that a machine named at an instant. It
// ends with the machine's session, for the next one tells it anew, and where the machine named
// another one since.
func (p *people) lookFor(ctx context.Context, a *agent, name string, meant int64) {
	for until := meant + int64(factMost); a.says(name); pause(ctx, factPoll) {
		page, err := p.api.NodeStates(ctx, v1.NodeFilter{Namespace: simulated.Namespace, Name: a.called(), Limit: 1})
		now := p.run.now()
		switch {
		case ctx.Err() != nil:
			if now-meant > cutOff {
				p.giveUp("fact", p.run.tempo(scenario.People).virtual(meant), 0, 1)
			}
			return
		case err == nil && len(page.Items) == 1 && slices.Contains(strings.Fields(page.Items[0].OS), name):
			p.note("fact", meant, now-meant, nil)
			return
		case err == nil && now > until:
			err = fmt.Errorf("%s said that it is %s, and after %s the server does not show it", a.called(), name, factMost)
			fallthrough
		case err != nil:
			p.note("fact", meant, now-meant, err)
			return
		}
	}
}

const (
	factPoll = 50 * time.Millisecond // how often somebody looks whether the server shows a fact …
	factMost = 30 * time.Second      // … and for how long
)

// otherwise tells the server of other facts; false: the machine has no session.
func (a *agent) otherwise(facts map[string]string) bool {
	a.mu.Lock()
	s := a.session
	a.facts = facts // the next session begins with them
	a.mu.Unlock()
	return s != nil && s.SendFacts(&wire.Facts{Facts: facts}) == nil
}

// says whether a distribution is what the machine said last, in the session that it has.
func (a *agent) says(distribution string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session != nil && a.facts["distribution"] == distribution
}
