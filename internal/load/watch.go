package load

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/pause"
)

// watch observes a run every ten milliseconds: it takes samples, reads the use of loader and server at the ends of
// parts, asks in an outage whether the server is ready, and ends a phase of steps when a step breaks.
type watch struct {
	run    *run
	rep    *reporting
	beside sync.WaitGroup
	meter  usage.Meter

	next      int64 // sample, ns since the run was made
	seconds   int   // of the timetable that have a sample
	prev      usage.SoFar
	prevMeter usage.Metered
	failed    uint64   // connections
	ramp      []moment // seconds that are not in the log yet
	lost      bool     // an agent has no session
	steps     bool     // some phase has steps

	edges  chan edge    // that are not in the log yet
	passed int          // edges: one at the beginning of each part, and one at the end of the last
	over   map[int]bool // phases of steps that broke
	asked  int          // parts that were judged as steps
	told   int          // number of parts that are complete in the log
}

// lookLate is the delay of the sample after the end of its second: by then a loader that keeps up has made all its
// results.
const lookLate = 50 * time.Millisecond

// newWatch returns the watch of a run.
func newWatch(r *run, rep *reporting) *watch {
	return &watch{run: r, rep: rep, meter: usage.Meter{Admin: r.cfg.AdminURL}, edges: make(chan edge, 1000), over: map[int]bool{},
		steps: slices.ContainsFunc(r.cfg.Scenario.Phases, func(p scenario.Phase) bool { return p.Step > 0 })}
}

// watch observes the run until the last part ends, or the outage in which it ended.
func (w *watch) watch(ctx context.Context) {
	r := w.run
	defer w.beside.Wait()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	w.beside.Go(func() { w.meter.Run(asking) })
	w.beside.Go(func() { w.logEdges(ctx) })
	defer close(w.edges)
	w.prev = r.usage()
	ramp := r.Now() + int64(time.Second)
	for {
		if pause.For(ctx, 10*time.Millisecond) != nil {
			return
		}
		now, begin := r.Now(), r.Begin()
		if begin == 0 {
			if r.ramp() > 0 && now >= ramp {
				ramp += int64(time.Second)
				w.sample(now, -1)
			}
			continue
		}
		if w.next == 0 {
			w.next, w.prev = begin+int64(time.Second+lookLate), r.usage()
			ramp = begin
		}
		if r.ramp() > 0 && now >= ramp { // the rest of the ramp is no part of the first second
			ramp = plan.Never
			w.sample(now, -1)
		}
		w.logRamp()
		r.collect()
		w.stop(now)
		w.pass(now)
		w.look(asking, &w.beside)
		if now >= w.next {
			w.next += int64(time.Second)
			w.sample(now, w.seconds)
			w.seconds++
		}
		if end := r.Present().End(); now >= end+2*int64(lookLate) && (!w.lost || now >= end+int64(r.cfg.drain())) {
			return
		}
	}
}

// usage returns the use of loader, server and machine so far.
func (r *run) usage() usage.SoFar {
	u := r.server.Use(time.Duration(r.Now()), r.cfg.ServerPID)
	u.Sent, u.Received = r.driver.Traffic()
	return u
}

// pass records the use of loader and server at the start and end of parts, and judges steps.
func (w *watch) pass(now int64) {
	s := w.run.Present()
	for n := w.passed; n <= len(s) && len(s) > 0; n++ {
		at := s.End()
		if n < len(s) {
			at = s[n].From
		}
		if now < at {
			break
		}
		w.edges <- edge{observe.Edge{Part: n, SoFar: w.run.usage()}, n < len(s) && s[n].Measured || n > 0 && s[n-1].Measured}
		w.passed++
	}
	w.step(now)
}

// finish logs the counts since the last second, and judges the last step.
func (w *watch) finish() {
	w.run.logSecond(w.seconds, nil)
	w.step(plan.Never)
}

// edge is the use of loader and server so far, at the start or end of a part of the timetable.
type edge struct {
	observe.Edge
	asks bool // for the server's metrics
}

// logEdges writes the edges, in order, with the server's metrics. A server that hangs answers after seconds: only later
// edges wait for it.
func (w *watch) logEdges(ctx context.Context) {
	for e := range w.edges {
		if e.asks && ctx.Err() == nil {
			e.Metrics = w.run.metrics()
		}
		w.run.log.Append(observe.Line{At: w.run.SinceBegin(), Edge: &e.Edge})
	}
}

// look starts to ask the server whether it is ready, when the first agent is lost.
func (w *watch) look(ctx context.Context, beside *sync.WaitGroup) {
	lost := w.run.driver.Away() > 0
	if lost && !w.lost {
		beside.Go(func() { w.run.waitServing(ctx) })
	}
	w.lost = lost
}

// waitServing asks readyz until the server is ready, and logs the time. Its timeout is long, because in a storm of
// reconnects this process is busier than the server.
func (r *run) waitServing(ctx context.Context) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for r.cfg.AdminURL != "" && ctx.Err() == nil {
		if resp, err := client.Get(r.cfg.AdminURL + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				r.log.Append(observe.Line{At: r.SinceBegin(), Mark: observe.MarkReady})
				return
			}
		}
		pause.For(ctx, 20*time.Millisecond)
	}
}
