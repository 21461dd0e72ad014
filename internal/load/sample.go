package load

import (
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// moment is a second of the ramp; its time relative to the measurement is known once the timetable starts.
type moment struct {
	report.Sample
	at int64 // ns since the run was made
}

// sample samples the second that has just ended; -1 means a second of the ramp.
func (w *watch) sample(now int64, second int) {
	r, u := w.run, w.run.usage()
	open, failed := r.driver.Sessions()
	span := u.At - w.prev.At
	s := report.Sample{Failed: failed - w.failed, Connected: open,
		ServerCPU: u.Server.Cores(w.prev.Server, span), LoaderCPU: u.Loader.Cores(w.prev.Loader, span),
		ServerRSS: u.Server.RSS, LoaderRSS: u.Loader.RSS}
	if u.Server.Since(w.prev.Server) && span > 0 {
		s.Written = float64(u.Server.Written-w.prev.Server.Written) / span.Seconds()
	}
	if w.prev.Busy > 0 && span > 0 && s.ServerCPU > 0 {
		s.OthersCPU = max(0, (u.Busy-w.prev.Busy).Seconds()/span.Seconds()-s.ServerCPU-s.LoaderCPU)
	}
	s.OwnLocks = usage.OwnLockShare(u.Waited-w.prev.Waited, span)
	w.failed, w.prev = failed, u
	w.inside(&s)
	if second >= 0 {
		w.place(&s, second)
		r.logSecond(second, &s)
		return
	}
	s.Phase = report.KindRamp
	s.Second = -int(math.Ceil((r.ramp() - time.Duration(now)).Seconds())) - 1 // about
	w.ramp = append(w.ramp, moment{s, now})
	if r.cfg.Progress != nil {
		r.cfg.Progress(s)
	}
}

// place sets the time and phase of a sample of the timetable, even if it was taken late.
func (w *watch) place(s *report.Sample, second int) {
	r := w.run
	began := r.Begin() + int64(second)*int64(time.Second)
	s.Second = int(math.Floor(time.Duration(began + int64(time.Second) + int64(lookLate) - r.Present().Zero()).Seconds()))
	s.Phase, s.Nth = r.phaseAt(began)
}

// logRamp writes the samples of the ramp to the log, once the timetable has started.
func (w *watch) logRamp() {
	zero := w.run.Present().Zero()
	for _, m := range w.ramp {
		m.Second = -int(math.Ceil(time.Duration(zero - m.at).Seconds()))
		w.run.log.Append(observe.Line{Check: &observe.CheckSecond{Number: -1, Sample: &m.Sample}})
	}
	w.ramp = nil
}

// seen passes a sample of all loaders to Config.Progress.
func (r *run) seen(s *report.Sample) {
	if r.cfg.Progress != nil {
		r.cfg.Progress(*s)
	}
}

// inside adds the changes of the server's metrics since the sample before.
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

// phaseAt returns the name and the number, from 1, of the phase at a time, or an empty name and 0.
func (r *run) phaseAt(at int64) (name string, nth int) {
	s := r.Present()
	if i := s.At(at); i >= 0 {
		return s[i].Name(r.cfg.Scenario), s[i].Phase + 1
	}
	return "", 0
}

// logSecond appends the tallies since the last line to the log. sample is nil for a part of a second and behind the timetable.
func (r *run) logSecond(number int, sample *report.Sample) {
	parts, offered := play.TakeBooks(append(r.driver.Books(), r.waits))
	used, counts := r.usage(), r.driver.Counts()
	counts.Late = time.Duration(r.late.Load())
	r.log.Append(observe.Line{At: r.SinceBegin(), Check: &observe.CheckSecond{Number: number, Sample: sample, Parts: parts, Offered: offered, Used: &used, Counts: counts}})
}
