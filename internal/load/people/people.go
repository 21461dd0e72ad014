package people

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// pageSize is how many events a page has.
const pageSize = 100

// People work through the API while results flow: they page through events, hold watches
// open, write resources, silence problems. When they ask is fixed before, see atRate.
type People struct {
	Run      Run
	API      *client.Client
	Scenario *scenario.Scenario
	Members  []simulated.Member
	Machines []Machine  // that are played here
	Quiet    [][]string // by class, the checks that may be silenced; nil for a class: all of them

	mu    sync.Mutex
	works map[string]*work // by what they do
}

// Run is what people know of the run that they work beside. Instants are ns since it was made.
type Run interface {
	Now() int64
	Meant(virtual int64) int64 // the instant of what is due at a virtual time of people
	Virtual(at int64) int64    // and the other way round; behind the end that of the end
	Waited(figure string, meant, took int64)
	Away(from, to int64) bool             // the server was, on purpose, at some time from one instant to another
	Called(member int) string             // what a node is called now
	Renamed(member int, name string) bool // it is called otherwise, or is about to be
}

// Machine is a simulated one, as people see it.
type Machine interface {
	Here() (name string, here bool)   // whether it has a session
	Stayed() bool                     // it has one, and had it for a while
	Otherwise(map[string]string) bool // it says that its facts are others now; false: it has no session
	Says(distribution string) bool    // in the session that it has, that is what it said last
}

// work is what one kind of operator did.
type work struct {
	requests, failed uint64
	unanswered       uint64                  // given up, see giveUp
	failedAway       uint64                  // of failed, what was asked while the server was away on purpose …
	unansweredAway   uint64                  // … and of unanswered
	why              string                  // the first failure
	took             *hdrhistogram.Histogram // µs
}

// Work lets the scenario's operators work until ctx ends.
func (p *People) Work(ctx context.Context) []report.Worked {
	o := p.Scenario.Operators
	p.works = map[string]*work{}
	var all sync.WaitGroup
	for i := range o.Lists {
		all.Go(func() { p.list(ctx, p.random("list", i), o.Pause.PerSecond(0)) })
	}
	for i := range o.Watches {
		all.Go(func() { p.watch(ctx, i) })
	}
	if rate := o.Applies.PerSecond(0); rate > 0 {
		all.Go(func() { p.apply(ctx, p.random("apply", 0), rate) })
	}
	if rate := o.Silences.PerSecond(0); rate > 0 {
		all.Go(func() { p.silence(ctx, p.random("silence", 0), rate) })
	}
	if rate := o.Runs.PerSecond(0); rate > 0 {
		all.Go(func() { p.runNow(ctx, p.random("run", 0), rate) })
	}
	if rate := o.Facts.PerSecond(0); rate > 0 {
		all.Go(func() { p.otherFacts(ctx, p.random("fact", 0), rate) })
	}
	all.Wait()
	var list []report.Worked
	for _, what := range [...]string{"list", "watch", "apply", "silence", "run", "fact"} {
		if w := p.works[what]; w != nil {
			list = append(list, report.Worked{What: what, Requests: w.requests, Failed: w.failed, Unanswered: w.unanswered, FailedAway: w.failedAway, UnansweredAway: w.unansweredAway, Why: w.why, Latency: report.LatencyOf(w.took)})
		}
	}
	return list
}

// random is a stream of its own for somebody, the same for the same seed.
func (p *People) random(who string, i int) *rand.Rand {
	h := p.Scenario.Seed
	for _, c := range []byte(who) {
		h = outputs.Mix(h ^ uint64(c))
	}
	return rand.New(rand.NewPCG(h, uint64(i)))
}

// list pages through what a person looks at: everything, what is wrong, one class, one
// machine; to the end of each, at most ten pages.
func (p *People) list(ctx context.Context, random *rand.Rand, rate float64) {
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
	const most = 10
	f, pages := v1.EventFilter{}, most
	p.atRate(ctx, "list", random, rate, func() error {
		if f.After == "" || pages == most {
			f, pages = views[random.IntN(len(views))](), 0
			f.Namespace, f.Limit = simulated.Namespace, pageSize
		}
		page, err := p.API.Events.List(ctx, f)
		f.After = page.Next
		pages++
		if err != nil && f.Node != "" && p.Run.Renamed(member, f.Node) {
			return errNobody
		}
		return err
	})
}

// watch holds a stream of what is wrong in one class open, and opens it again where it
// breaks. Its latency is from when the server received what changed, by this machine's
// clock, to its arrival here.
func (p *People) watch(ctx context.Context, i int) {
	class := &p.Scenario.Agents[i%len(p.Scenario.Agents)]
	f := v1.EventFilter{Namespace: simulated.Namespace, Selector: simulated.ClassLabel + "=" + class.Name, Problem: true}
	for ctx.Err() == nil {
		err := p.API.Events.Watch(ctx, f, func() error { return nil }, func(e v1.Event) error {
			took := int64(max(0, time.Since(e.Received)))
			p.note("watch", p.Run.Now()-took, took, nil)
			return nil
		})
		if ctx.Err() != nil {
			return // the end of the run broke it off
		}
		p.note("watch", p.Run.Now(), 0, err)
		pause.For(ctx, time.Second)
	}
}

// apply writes groups that hold nobody, again and again.
func (p *People) apply(ctx context.Context, random *rand.Rand, rate float64) {
	n := 0
	p.atRate(ctx, "apply", random, rate, func() error {
		n++
		group := simulated.Resource(model.Metadata{Name: fmt.Sprintf("operator-%02d", n%20), Namespace: simulated.Namespace, DisplayName: fmt.Sprintf("written %d times", n)},
			&model.GroupSpec{Where: "false"})
		return simulated.Apply(ctx, p.API, "an operator of a load run", group)
	})
}

// silenceFor is how long a silence of an operator lasts.
const silenceFor = 10 * time.Minute

// silence asks for quiet about one machine after the other, but for what the run listens to: a
// silence tells nobody; the problems under it are judged as ever.
func (p *People) silence(ctx context.Context, random *rand.Rand, rate float64) {
	p.atRate(ctx, "silence", random, rate, func() error {
		m := p.Members[random.IntN(len(p.Members))]
		node := m.Name
		quiet := simulated.Resource(model.Metadata{Name: "operator-" + node, Namespace: simulated.Namespace}, &model.SilenceSpec{
			Selector: model.Selector{Targets: &model.Targets{Nodes: []string{node}}, Checks: p.Quiet[m.Class]},
			Until:    model.Time{Time: time.Now().Add(silenceFor).Truncate(time.Second)},
			Reason:   "made by a load run",
		})
		return simulated.Apply(ctx, p.API, "an operator of a load run", quiet)
	})
}
