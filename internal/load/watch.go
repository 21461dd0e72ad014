package load

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/pause"
)

// watch looks at a run every ten milliseconds: it samples it, reads both processes at the
// ends of its parts, follows outages, and ends a phase of steps when one breaks.
type watch struct {
	run    *run
	rep    *reporting
	beside sync.WaitGroup
	meter  usage.Meter

	next      int64 // sample, ns since the run was made
	seconds   int   // of the timetable that have a sample
	prev      usage.SoFar
	prevMeter usage.Metered
	sent      uint64
	acked     uint64
	failed    uint64   // connections
	ramp      []moment // seconds that are not in the log yet
	said      Presence // to the lead

	edges     []edge       // that are not in the log yet …
	passed    int          // … of so many: one at the beginning of each part, and one at the end of the last
	lastAsked *reading     // of the server's metrics, at any of them
	over      map[int]bool // phases of steps that broke
	asked     int          // parts that were judged as steps
	told      int          // parts of which all is in the log
}

// lookLate is how long after a second it is looked at: what was meant to be sent in it has
// been made by then, where the generator keeps up.
const lookLate = 50 * time.Millisecond

func newWatch(r *run, rep *reporting) *watch {
	return &watch{run: r, rep: rep, meter: usage.Meter{Admin: r.cfg.AdminURL}, over: map[int]bool{}}
}

// watch ends with the last part, or with the outage in which that ended.
func (w *watch) watch(ctx context.Context) {
	r := w.run
	defer w.beside.Wait()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	w.beside.Go(func() { w.meter.Run(asking) })
	w.prev = r.usage()
	ramp := r.now() + int64(time.Second)
	for {
		if pause.For(ctx, 10*time.Millisecond) != nil {
			return
		}
		now, begin := r.now(), r.begin.Load()
		if begin == 0 {
			w.tellPresence()
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
		w.pass(ctx, now)
		r.trouble.look(asking, r, &w.beside, time.Duration(now))
		w.tellPresence()
		if now >= w.next {
			w.next += int64(time.Second)
			w.sample(now, w.seconds)
			w.seconds++
		}
		if end := r.present().end(); now >= end+2*int64(lookLate) && (!r.trouble.open() || now >= end+int64(r.cfg.drain())) {
			w.rep.Outages = r.trouble.list(time.Duration(r.present().zero()))
			return
		}
	}
}

// totals sums the ledgers.
func (r *run) totals() (sent, acked uint64) {
	for _, a := range r.agents {
		a.mu.Lock()
		sent += a.ledger.sent
		acked += a.ledger.acked
		a.mu.Unlock()
	}
	return sent, acked
}

// notOpened is how many connections could not be opened so far.
func (r *run) notOpened() (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range r.failures {
		n += times
	}
	return n
}

func (r *run) usage() usage.SoFar {
	u := r.server.Use(time.Duration(r.now()), r.cfg.ServerPID)
	u.Sent, u.Received = r.traffic.sent.Load(), r.traffic.received.Load()
	return u
}
