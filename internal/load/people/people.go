// Package people has the API users of a load run: they list, watch, write, silence, run commands, look for changed
// facts and change intent, at times that the scenario and its seed decide.
//
// rate.go has the times and the counts, requests.go the requests, changes.go the changes of intent, orders.go the
// agents that hold them. Goroutines: one for each user and for each awaited
// fact, all within Work. Locks: People.mu; Run.Waited and Run.Away are called under it. Changes.mu; Machine and Run are called under it. Start reading at Work.
package people

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
)

// People plays the API users of a run.
type People struct {
	Run      Run
	Time     clock.Pipeline
	API      *client.Client
	Scenario *scenario.Scenario
	Members  []simulated.Member
	Machines []Machine                         // of this process
	Queries  []func(ctx context.Context) error // about values and directives, one after the other
	Quiet    [][]string                        // by class, the checks that may be silenced; nil for a class: all of them

	mu    sync.Mutex
	works map[string]*work // by the kind of request
}

// Run is the run during which users work. Times are those of its clock.
type Run interface {
	Waited(figure string, meant, took int64)
	Away(from, to int64) bool             // the server was down on purpose at some time between
	Called(member int) string             // the present name of a node
	Renamed(member int, name string) bool // its name differs, or is about to
	Append(x *observe.Intent)             // to the log
}

// Machine is a simulated machine.
type Machine interface {
	Here() (name string, here bool)   // whether it has a session
	Stayed() bool                     // it has had a session for a while
	Otherwise(map[string]string) bool // it reports changed facts; false: it has no session
	Says(distribution string) bool    // its last report in this session
	Class() *scenario.Class
	Held() (held *link.Assignment, since int64) // its assignment, nil: none yet
}

// work counts the requests of one kind.
type work struct {
	report.Worked
	took *hdrhistogram.Histogram // µs
}

// Work plays the scenario's users until ctx ends.
func (p *People) Work(ctx context.Context) []report.Worked {
	o := p.Scenario.Operators
	p.works = map[string]*work{}
	var all sync.WaitGroup
	for i := range o.Watches {
		all.Go(func() { p.watch(ctx, i) })
	}
	all.Go(func() { p.changeFacts(ctx, p.random("fact", 0), o.Facts.PerSecond(0)) })
	for _, user := range []struct {
		what  string
		users int
		rate  scenario.Rate
		ask   func(*rand.Rand) func(context.Context) error
	}{{"list", o.Lists, o.Pause, p.list}, {"apply", 1, o.Applies, p.apply}, {"silence", 1, o.Silences, p.silence}, {"run", 1, o.Runs, p.runCommand}, {"query", min(1, len(p.Queries)), "12/min", p.query}} {
		for i := range user.users {
			random := p.random(user.what, i)
			all.Go(func() { p.atRate(ctx, user.what, random, user.rate.PerSecond(0), user.ask(random)) })
		}
	}
	all.Wait()
	var list []report.Worked
	for _, what := range [...]string{"list", "watch", "apply", "silence", "run", "fact", "query"} {
		if w := p.works[what]; w != nil {
			w.What, w.Latency = what, report.LatencyOf(w.took)
			list = append(list, w.Worked)
		}
	}
	return list
}

// random returns a random source for one user, the same for the same seed.
func (p *People) random(what string, i int) *rand.Rand {
	h := p.Scenario.Seed
	for _, c := range []byte(what) {
		h = outputs.Mix(h ^ uint64(c))
	}
	return rand.New(rand.NewPCG(h, uint64(i)))
}
