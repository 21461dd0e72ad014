package load

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// moment is when a sample was taken.
type moment struct {
	second int   // of the timetable; -1: before it
	at     int64 // ns since the run was made
}

// seen is a sample until all loaders have told of its second.
type seen struct {
	report.Sample
	moment
	whole, beyond, lag *hdrhistogram.Histogram            // of a second of the timetable
	waits              map[string]*hdrhistogram.Histogram // of who waits beside the results, by figure
}

// sample looks at the second that has just ended.
func (w *watch) sample(now int64, second int) {
	r, u := w.run, w.run.usage()
	sent, acked := r.totals()
	failed := r.notOpened()
	span := u.At - w.prev.At
	s := report.Sample{Sent: sent - w.sent, Acked: acked - w.acked, Failed: failed - w.failed, Connected: int(r.connected.Load()),
		ServerCPU: u.Server.Cores(w.prev.Server, span), LoaderCPU: u.Loader.Cores(w.prev.Loader, span),
		ServerRSS: u.Server.RSS, LoaderRSS: u.Loader.RSS}
	if u.Server.Since(w.prev.Server) && span > 0 {
		s.Written = float64(u.Server.Written-w.prev.Server.Written) / span.Seconds()
	}
	if w.prev.Busy > 0 && span > 0 && s.ServerCPU > 0 {
		s.OthersCPU = max(0, (u.Busy-w.prev.Busy).Seconds()/span.Seconds()-s.ServerCPU-s.LoaderCPU)
	}
	s.OwnLocks = usage.OwnLockShare(u.Waited-w.prev.Waited, span)
	w.sent, w.acked, w.failed, w.prev = sent, acked, failed, u
	x := seen{Sample: s, moment: moment{second, now}}
	x.fill(w)
	w.waiting = append(w.waiting, x)
	w.publish(false)
}

// fill in what depends on when it is.
func (s *seen) fill(w *watch) {
	r := w.run
	if s.second < 0 {
		theirs := r.presence(0)
		s.Connected += theirs.Connected
		s.Phase = report.KindRamp
		s.Second = -int(math.Ceil((r.ramp() - time.Duration(s.at)).Seconds())) - 1 // about: it is set right in the end
	} else {
		ended := r.begin.Load() + int64(s.second+1)*int64(time.Second) + int64(lookLate) // whenever it was looked at
		s.Second = int(math.Floor(time.Duration(ended - r.present().zero()).Seconds()))
		s.Phase, s.Nth = r.phaseAt(r.begin.Load() + int64(s.second)*int64(time.Second))
		s.take(r)
		until := r.offeredUntil(s.second)
		s.Offered, w.offered = until-w.offered, until // what a late generator makes of seconds before counts now; amend sets it right
		s.waits = r.beside.take()
	}
	w.inside(&s.Sample)
}

// take takes what the books have of the second.
func (s *seen) take(r *run) {
	s.whole, s.beyond, s.lag = observe.NewSecond()
	for _, x := range r.senders {
		t := x.book.take()
		s.whole.Merge(t.whole)
		s.beyond.Merge(t.beyond)
		s.lag.Merge(t.lag)
		s.Refused += t.refused
	}
}

// publish shows the samples that are whole, in order; at last also those that some loader
// said nothing of.
func (w *watch) publish(last bool) {
	for len(w.waiting) > 0 {
		s := &w.waiting[0]
		if s.second >= 0 && !w.gather(s) && !last {
			return
		}
		w.show(s)
		w.waiting = w.waiting[1:]
	}
}

// gather adds what other loaders did in the second, once all have told.
func (w *watch) gather(s *seen) bool {
	if w.run.cfg.Others == nil {
		return true
	}
	all := w.run.cfg.Others.Second(s.second)
	if slices.Contains(all, nil) {
		return false
	}
	for i, second := range all {
		o := &second.Sample
		s.Sent += o.Sent
		s.Acked += o.Acked
		s.Refused += o.Refused
		s.Failed += o.Failed
		s.Offered += o.Offered
		s.Connected += o.Connected
		s.LoaderCPU += o.LoaderCPU
		s.LoaderRSS += o.LoaderRSS
		if w.run.joined[i].Here {
			s.OthersCPU = max(0, s.OthersCPU-o.LoaderCPU)
		}
		if whole, beyond, lag, err := second.Unpack(); err == nil { // its reader has refused what cannot be unpacked
			s.whole.Merge(whole)
			s.beyond.Merge(beyond)
			s.lag.Merge(lag)
		}
	}
	return true
}

// show hands a sample to the report and to who looks, or to the loader that leads.
func (w *watch) show(s *seen) {
	r := w.run
	if s.second >= 0 {
		s.Waits = waits(s.waits)
		s.Lag = float64(s.lag.ValueAtQuantile(99)) / 1000
		if s.whole.TotalCount() > 0 {
			l := report.LatencyOf(s.whole)
			s.Latency, s.Beyond = &l, report.LatencyOf(s.beyond).P99
		}
		began := r.begin.Load() + int64(s.second)*int64(time.Second)
		score := r.present()
		i := score.at(began)
		x := &observe.CheckSecond{Number: s.second, Measured: i >= 0 && score[i].measured, Sample: s.Sample, Whole: observe.Pack(s.whole), Beyond: observe.Pack(s.beyond), Lag: observe.Pack(s.lag), Lost: w.lostSince()}
		if r.cfg.Second != nil {
			if !x.Measured {
				s.whole.SetTag("warmup")
			}
			r.cfg.Second(r.epoch.Add(time.Duration(began)), s.whole)
		}
		if r.lead != nil {
			r.lead.Second(x)
		} else {
			r.log.Append(observe.Line{At: r.sinceStart(), Check: x})
		}
	}
	w.rep.Samples, w.moments = append(w.rep.Samples, s.Sample), append(w.moments, s.moment)
	if r.cfg.Progress != nil {
		r.cfg.Progress(s.Sample)
	}
}

// lostSince counts the sessions that ended since it was asked last, by cause.
func (w *watch) lostSince() (more map[string]uint64) {
	_, losses := w.run.causes()
	for cause, n := range losses {
		if n -= w.losses[cause]; n > 0 {
			if more == nil {
				more = map[string]uint64{}
			}
			more[cause] = n
		}
	}
	w.losses = losses
	return more
}

// inside fills in what the server said of itself since the sample before.
func (w *watch) inside(s *report.Sample) {
	m, before := w.meter.Read(), w.prevMeter
	if m.At == before.At || m.Sums == nil {
		return
	}
	w.prevMeter = m
	if behind, ok := m.Sums["muster_dispatch_behind_seconds"]; ok {
		s.Behind = &behind
	}
	s.Heap, s.Goroutines, s.Queues = m.Sums["go_memstats_heap_alloc_bytes"], m.Sums["go_goroutines"], m.Queues
	if before.Sums == nil {
		return
	}
	gained := func(name string) float64 { return max(0, m.Sums[name]-before.Sums[name]) }
	span := m.At.Sub(before.At).Seconds()
	s.GC = 1000 * gained("go_gc_duration_seconds_sum") / span
	s.Locks = usage.LockShare(gained(usage.WaitMetric), span, m.Sums[usage.ProcessorsMetric])
	s.Commits, s.Syncs = gained("muster_journal_commit_entries_count")/span, gained("muster_journal_syncs_total")/span
	if n := gained("muster_journal_commit_seconds_count"); n > 0 {
		s.CommitMs = 1000 * gained("muster_journal_commit_seconds_sum") / n
	}
}

// amend sets right what was not known yet when samples were taken.
func (w *watch) amend() {
	zero := w.run.present().zero()
	for i := range w.rep.Samples {
		s, m := &w.rep.Samples[i], w.moments[i]
		if m.second < 0 {
			s.Second = -int(math.Ceil(time.Duration(zero - m.at).Seconds()))
			continue
		}
		s.Offered = w.run.offeredIn(m.second)
		for _, other := range w.run.measured {
			if m.second < len(other.Offered) {
				s.Offered += uint64(other.Offered[m.second])
			}
		}
	}
}
