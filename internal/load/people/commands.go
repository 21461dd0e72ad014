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

// runNow has one machine after the other run a command at once, and waits for its end: a
// simulated machine says that it runs nothing.
func (p *People) runNow(ctx context.Context, random *rand.Rand, rate float64) {
	p.atRate(ctx, "run", random, rate, func() error {
		a := p.Machines[random.IntN(len(p.Machines))]
		name, here := a.Here()
		if !here {
			return errNobody // nor is it the server's doing
		}
		ended := v1.RunLine{}
		err := p.API.Run(ctx, v1.RunRequest{Namespace: simulated.Namespace, Command: &model.Command{Shell: "true"}, Targets: &model.Targets{Nodes: []string{name}}, Yes: true}, func(l v1.RunLine) error {
			if l.Type == v1.RunDone || l.Type == v1.RunLost || l.Type == v1.RunRefused {
				ended = l
			}
			return nil
		})
		if now, _ := a.Here(); err != nil && now != name {
			return errNobody // by that name
		}
		if err == nil && ended.Type != v1.RunDone && a.Stayed() {
			err = fmt.Errorf("on %s it was %q: %s", name, ended.Type, ended.Why)
		}
		return err
	})
}

// otherFacts has one machine after the other say that its distribution is another one, and looks
// when the server shows it. No machine waits for another.
func (p *People) otherFacts(ctx context.Context, random *rand.Rand, rate float64) {
	var looking sync.WaitGroup
	defer looking.Wait()
	n := 0
	p.eachDue(ctx, "fact", random, rate, func(meant int64) bool {
		n++
		a, name := p.Machines[random.IntN(len(p.Machines))], fmt.Sprintf("load-%d", n)
		if a.Otherwise(map[string]string{"distribution": name}) {
			looking.Go(func() { p.lookFor(ctx, a, name, meant) })
		}
		return true
	})
}

// lookFor waits until the server shows the distribution that a machine named at an instant. It
// ends with the machine's session, for the next one tells it anew, and where the machine named
// another one since.
func (p *People) lookFor(ctx context.Context, a Machine, name string, meant int64) {
	for until := meant + int64(factMost); a.Says(name); pause.For(ctx, factPoll) {
		called, _ := a.Here()
		page, err := p.API.Nodes.States(ctx, v1.NodeFilter{Namespace: simulated.Namespace, Name: called, Limit: 1})
		now := p.Run.Now()
		switch {
		case ctx.Err() != nil:
			if now-meant > CutOff {
				p.giveUp("fact", p.Run.Virtual(meant), 0, 1)
			}
			return
		case err == nil && len(page.Items) == 1 && slices.Contains(strings.Fields(page.Items[0].OS), name):
			p.note("fact", meant, now-meant, nil)
			return
		case err == nil && now > until:
			err = fmt.Errorf("%s said that it is %s, and after %s the server does not show it", called, name, factMost)
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
