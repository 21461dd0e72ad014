package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
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
)

// people work through the API while results flow: they page through events, hold watches
// open, write resources, silence problems. When they ask is fixed before, see atRate.
type people struct {
	run *run
	api *client.Client

	mu    sync.Mutex
	works map[string]*work // by what they do
}

// work is what one kind of operator did.
type work struct {
	requests, failed uint64
	unanswered       uint64                  // given up, see giveUp
	why              string                  // the first failure
	took             *hdrhistogram.Histogram // µs
}

// operate lets the scenario's operators work until ctx ends.
func (r *run) operate(ctx context.Context) []report.Worked {
	o := r.cfg.Scenario.Operators
	p := &people{run: r, api: r.cfg.API, works: map[string]*work{}}
	if p.api == nil {
		return nil // said by leftUndone
	}
	var all sync.WaitGroup
	for i := range o.Lists {
		all.Go(func() { p.list(ctx, r.random("list", i), o.Pause.PerSecond(0)) })
	}
	for i := range o.Watches {
		all.Go(func() { p.watch(ctx, i) })
	}
	if rate := o.Applies.PerSecond(0); rate > 0 {
		all.Go(func() { p.apply(ctx, r.random("apply", 0), rate) })
	}
	if rate := o.Silences.PerSecond(0); rate > 0 {
		all.Go(func() { p.silence(ctx, r.random("silence", 0), rate) })
	}
	if rate := o.Runs.PerSecond(0); rate > 0 {
		all.Go(func() { p.runNow(ctx, r.random("run", 0), rate) })
	}
	if rate := o.Facts.PerSecond(0); rate > 0 {
		all.Go(func() { p.otherFacts(ctx, r.random("fact", 0), rate) })
	}
	all.Wait()
	var list []report.Worked
	for _, what := range [...]string{"list", "watch", "apply", "silence", "run", "fact"} {
		if w := p.works[what]; w != nil {
			list = append(list, report.Worked{What: what, Requests: w.requests, Failed: w.failed, Unanswered: w.unanswered, Why: w.why, Latency: report.LatencyOf(w.took)})
		}
	}
	return list
}

// meanwhile lets people work, and intent change, until the func that it returns is called:
// that waits for them and fills the report.
func (r *run) meanwhile(ctx context.Context, rep *reporting) func() {
	while, end := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { rep.Operators = r.operate(while) })
	both.Go(func() {
		rep.intent = r.reform.play(while, ctx)
		if len(r.cfg.Scenario.Intent) > 0 {
			r.order(Order{Over: true}, r.now())
		}
	})
	return func() {
		end()
		both.Wait()
		r.reform.await(ctx)
		rep.Label = append(rep.Label, r.leftUndone()...)
	}
}

// judgePeople says what went wrong with what people did. While the server is restarted,
// answers may fail.
func (rep *reporting) judgePeople(c Config) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if rep.intent != nil {
		say("intent could not be changed any more: %v", rep.intent)
	}
	for _, h := range rep.Changes {
		if h.Never > 0 {
			say("%s: %d times an agent never held it", h.What, h.Never)
		}
	}
	ends := func(f scenario.Fault) bool { return f.Server != "" || f.Run != "" }
	if c.Halfway != nil || c.Scenario != nil && slices.ContainsFunc(c.Scenario.Faults, ends) {
		return list
	}
	for _, w := range rep.Operators {
		if w.Failed > 0 {
			say("%d of %d requests of people who %s failed: %s", w.Failed, w.Requests, w.What, w.Why)
		}
		if 10*w.Unanswered > w.Requests+w.Unanswered {
			say("%d of %d requests of people who %s were not answered by the end", w.Unanswered, w.Requests+w.Unanswered, w.What)
		}
	}
	return list
}

// random is a stream of its own for somebody, the same for the same seed.
func (r *run) random(who string, i int) *rand.Rand {
	h := r.cfg.Scenario.Seed
	for _, c := range []byte(who) {
		h = outputs.Mix(h ^ uint64(c))
	}
	return rand.New(rand.NewPCG(h, uint64(i)))
}

// list pages through what a person looks at: everything, what is wrong, one class, one
// machine; to the end of each, at most ten pages.
func (p *people) list(ctx context.Context, random *rand.Rand, rate float64) {
	classes := p.run.cfg.Scenario.Agents
	views := []func() v1.EventFilter{
		func() v1.EventFilter { return v1.EventFilter{} },
		func() v1.EventFilter { return v1.EventFilter{Problem: true} },
		func() v1.EventFilter { return v1.EventFilter{Status: "critical"} },
		func() v1.EventFilter {
			return v1.EventFilter{Selector: simulated.ClassLabel + "=" + classes[random.IntN(len(classes))].Name}
		},
		func() v1.EventFilter {
			return v1.EventFilter{Node: p.run.cfg.Members[random.IntN(len(p.run.cfg.Members))].Name}
		},
	}
	const most = 10
	f, pages := v1.EventFilter{}, most
	p.atRate(ctx, "list", random, rate, func() error {
		if f.After == "" || pages == most {
			f, pages = views[random.IntN(len(views))](), 0
			f.Namespace, f.Limit = simulated.Namespace, pageSize
		}
		page, err := p.api.Events(ctx, f)
		f.After = page.Next
		pages++
		return err
	})
}

// watch holds a stream of what is wrong in one class open, and opens it again where it
// breaks. Its latency is from when the server received what changed, by this machine's
// clock, to its arrival here.
func (p *people) watch(ctx context.Context, i int) {
	class := &p.run.cfg.Scenario.Agents[i%len(p.run.cfg.Scenario.Agents)]
	f := v1.EventFilter{Namespace: simulated.Namespace, Selector: simulated.ClassLabel + "=" + class.Name, Problem: true}
	for ctx.Err() == nil {
		err := p.api.Watch(ctx, f, func() error { return nil }, func(e v1.Event) error {
			took := int64(max(0, time.Since(e.Received)))
			p.note("watch", p.run.now()-took, took, nil)
			return nil
		})
		if ctx.Err() != nil {
			return // the end of the run broke it off
		}
		p.note("watch", p.run.now(), 0, err)
		pause(ctx, time.Second)
	}
}

// apply writes groups that hold nobody, again and again.
func (p *people) apply(ctx context.Context, random *rand.Rand, rate float64) {
	n := 0
	p.atRate(ctx, "apply", random, rate, func() error {
		n++
		group := simulated.Resource(model.Metadata{Name: fmt.Sprintf("operator-%02d", n%20), Namespace: simulated.Namespace, DisplayName: fmt.Sprintf("written %d times", n)},
			&model.GroupSpec{Where: "false"})
		return applyAll(ctx, p.api, "an operator of a load run", group)
	})
}

// silenceFor is how long a silence of an operator lasts.
const silenceFor = 10 * time.Minute

// silence asks for quiet about one machine after the other, but for what the run listens to: a
// silence tells nobody; the problems under it are judged as ever.
func (p *people) silence(ctx context.Context, random *rand.Rand, rate float64) {
	checks := p.run.unheard()
	p.atRate(ctx, "silence", random, rate, func() error {
		m := p.run.cfg.Members[random.IntN(len(p.run.cfg.Members))]
		node := m.Name
		quiet := simulated.Resource(model.Metadata{Name: "operator-" + node, Namespace: simulated.Namespace}, &model.SilenceSpec{
			Selector: model.Selector{Targets: &model.Targets{Nodes: []string{node}}, Checks: checks[m.Class]},
			Until:    model.Time{Time: time.Now().Add(silenceFor).Truncate(time.Second)},
			Reason:   "made by a load run",
		})
		return applyAll(ctx, p.api, "an operator of a load run", quiet)
	})
}

// applyAll declares resources, however many nodes they land on.
func applyAll(ctx context.Context, api *client.Client, why string, list ...model.Resource) error {
	request := v1.ApplyRequest{Message: why, Yes: true}
	for i := range list {
		body, err := json.Marshal(&list[i])
		if err != nil {
			return fmt.Errorf("encode %s: %w", list[i].Metadata.Name, err)
		}
		request.Resources = append(request.Resources, body)
	}
	_, err := api.Apply(ctx, request)
	return err
}

// leftUndone says what of the scenario nobody could do, where there is no login.
func (r *run) leftUndone() (list []string) {
	sc := r.cfg.Scenario
	if r.cfg.API != nil {
		return nil
	}
	if r.dock == nil && r.cfg.Alone == "" { // a stage calls nobody silent
		list = append(list, "whether healthy machines were called silent was not judged: there was no login")
	}
	if len(sc.Intent) > 0 {
		list = append(list, "intent was not changed: there was no login")
	}
	if sc.Operators.Any() {
		list = append(list, "operators did nothing: there was no login")
	}
	if sc.HasAlerts() {
		list = append(list, "nobody was told of problems: there was no login")
	}
	if sc.Stream.Connections > 0 {
		list = append(list, "nobody was told of every result: there was no login")
	}
	if stopping(sc) || len(failing(sc)) > 0 {
		list = append(list, "alerts of the faults were not judged: there was no login")
	}
	return list
}
