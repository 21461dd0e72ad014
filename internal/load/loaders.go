package load

import (
	"cmp"
	"fmt"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// loaders are the figures of each loader in the parts that count, where there are several;
// own is the tally of this one, and used what all used.
func (w *watch) loaders(own *tally, used *usage.Gained) []report.Loader {
	r := w.run
	if r.cfg.Others == nil {
		return nil
	}
	first := used.Alone()
	list := []report.Loader{{Name: hostname(), Here: true, Agents: len(r.agents), Results: own.results, Lag: report.LatencyOf(own.lag), AgentBytes: w.rep.ownBytes,
		Usage: first.Of(own.results)}}
	for i, j := range r.joined {
		t, u := newTally(), usage.Cost{Span: used.Length.Seconds()}
		for part := range r.measured[i].Stretches {
			if s := &r.measured[i].Stretches[part]; part < len(r.present()) && w.counts(part) {
				t.merge(s.Tally)
				u.CPU += s.CPU.Seconds()
				u.RSS = s.RSS
			}
		}
		list = append(list, report.Loader{Name: j.Name, Here: j.Here, Agents: r.shareOf(i), Results: t.results, Lag: report.LatencyOf(t.lag), AgentBytes: r.arrived[i].Bytes,
			Clock: ms(j.Clock), Usage: u.Of(t.results)})
	}
	return list
}

// behind names the loaders that fell behind, with how far.
func (rep *reporting) behind(c Config) (list []string) {
	for i, l := range rep.Loaders {
		if l.Lag.P99 > ms(c.MaxLag) {
			list = append(list, fmt.Sprintf("loader %d (%s, p99 %.1f ms)", i+1, cmp.Or(l.Name, "?"), l.Lag.P99))
		}
	}
	return list
}
