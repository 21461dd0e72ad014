package judge

import (
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// bySeconds returns a report with the figures of the seconds of a log.
func bySeconds(c *observe.Checks) (*report.Report, error) {
	if len(c.Seconds) == 0 {
		return nil, errors.New("judge an observation log: it has no second, for the loader ended in the first one")
	}
	rep := *c.Start.Report
	rep.Samples, rep.Phases, rep.Losses = nil, nil, map[string]uint64{}
	rep.Balance = &report.Balance{}
	all, phase := newMerged(), newMerged()
	last := &c.Seconds[len(c.Seconds)-1]
	for i := range c.Seconds {
		s := &c.Seconds[i]
		rep.Samples = append(rep.Samples, s.Sample)
		rep.Balance.Sent += s.Sample.Sent
		rep.Balance.Acknowledged += s.Sample.Acked
		rep.Balance.Refused += s.Sample.Refused
		for cause, n := range s.Lost {
			rep.Losses[cause] += n
		}
		if !s.Measured {
			continue
		}
		if err := errors.Join(all.add(s), phase.add(s)); err != nil {
			return nil, fmt.Errorf("judge an observation log: second %d: %w", s.Number, err)
		}
		if next := i + 1; next == len(c.Seconds) || c.Seconds[next].Sample.Phase != s.Sample.Phase || !c.Seconds[next].Measured {
			rep.Phases = append(rep.Phases, phase.played(s))
			phase = newMerged()
		}
	}
	rep.Results = all.offered
	if all.seconds > 0 {
		rep.Rate = float64(all.acked) / float64(all.seconds)
	}
	rep.Latency, rep.BeyondLinger, rep.Lag, rep.Curve = report.LatencyOf(all.whole), report.LatencyOf(all.beyond), report.LatencyOf(all.lag), report.CurveOf(all.whole)
	if n := float64(all.seconds); n > 0 {
		rep.Server = report.Usage{Cores: all.server / n, RSS: last.Sample.ServerRSS}
		rep.Loader = report.Usage{Cores: all.loader / n, RSS: last.Sample.LoaderRSS}
		rep.MachineShare = report.MachineShare(rep.Server, rep.Loader)
	}
	return &rep, nil
}

// killed returns the figures of a run whose loader was killed.
func killed(c *observe.Checks) (*observe.Measured, error) {
	rep, err := bySeconds(c)
	if err != nil {
		return nil, err
	}
	last := &c.Seconds[len(c.Seconds)-1]
	rep.Stopped = &report.Stopped{After: float64(last.Number + 1), Of: c.Start.Seconds, Phase: last.Sample.Phase, By: "the end of the loader, which was killed"}
	rep.Stopped.Whole = len(rep.Phases)
	if n := len(rep.Phases); n > 0 && last.Measured {
		rep.Phases[n-1].Short = true
		rep.Stopped.Whole--
	}
	for _, f := range c.Faults {
		if !f.Over {
			rep.Faults = append(rep.Faults, report.Struck{What: f.What, At: f.At})
		}
	}
	rep.Label = append(rep.Label, "the loader was killed: nothing is compared with the server, and alerts, turns and silence are not judged")
	return &observe.Measured{Report: rep}, nil
}

// merged is the sum of some seconds.
type merged struct {
	seconds                 int
	first                   *observe.CheckSecond
	offered, acked, refused uint64
	server, loader          float64 // cores × seconds
	whole, beyond, lag      *hdrhistogram.Histogram
}

func newMerged() *merged {
	m := &merged{}
	m.whole, m.beyond, m.lag = observe.NewSecond()
	return m
}

func (m *merged) add(s *observe.CheckSecond) error {
	whole, beyond, lag, err := s.Unpack()
	if err != nil {
		return err
	}
	if m.first == nil {
		m.first = s
	}
	m.seconds++
	m.offered += s.Sample.Offered
	m.acked += s.Sample.Acked
	m.refused += s.Sample.Refused
	m.server += s.Sample.ServerCPU
	m.loader += s.Sample.LoaderCPU
	m.whole.Merge(whole)
	m.beyond.Merge(beyond)
	m.lag.Merge(lag)
	return nil
}

// played returns the seconds as a phase that ends with a second.
func (m *merged) played(last *observe.CheckSecond) report.Played {
	n := float64(m.seconds)
	return report.Played{Name: m.first.Sample.Phase, Kind: "steady", From: float64(m.first.Sample.Second) - 1, To: float64(last.Sample.Second), Offered: float64(m.offered) / n, Acknowledged: float64(m.acked) / n,
		Refused: m.refused, Latency: report.LatencyOf(m.whole), BeyondLinger: report.LatencyOf(m.beyond), Lag: report.LatencyOf(m.lag)}
}
