package load

import (
	"context"
	"sync"
	"time"

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
	return &watch{run: r, rep: rep, meter: usage.Meter{Admin: r.cfg.AdminURL}, edges: make(chan edge, 1000), over: map[int]bool{}}
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
	ramp := r.now() + int64(time.Second)
	for {
		if pause.For(ctx, 10*time.Millisecond) != nil {
			return
		}
		now, begin := r.now(), r.begin.Load()
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
			ramp = never
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
		if end := r.present().end(); now >= end+2*int64(lookLate) && (!w.lost || now >= end+int64(r.cfg.drain())) {
			return
		}
	}
}

// usage returns the use of loader, server and machine so far.
func (r *run) usage() usage.SoFar {
	u := r.server.Use(time.Duration(r.now()), r.cfg.ServerPID)
	u.Sent, u.Received = r.traffic.sent.Load(), r.traffic.received.Load()
	return u
}
