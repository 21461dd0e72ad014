package load

import (
	"cmp"
	"fmt"

	"github.com/muster-fleet/muster/internal/load/report"
)

// loaders are the figures of each loader in the parts that count, where there are several;
// own is the tally of this one, and used what all used.
func (w *watch) loaders(own *tally, used *gained) []report.Loader {
	r := w.run
	if r.cfg.Others == nil {
		return nil
	}
	first := used.alone()
	list := []report.Loader{{Name: hostname(), Here: true, Agents: len(r.agents), Results: own.results, Lag: report.LatencyOf(own.lag), AgentBytes: w.rep.ownBytes,
		Usage: first.of(own.results)}}
	for i, j := range r.joined {
		t, u := newTally(), cost{span: used.length.Seconds()}
		for part := range r.measured[i].Stretches {
			if s := &r.measured[i].Stretches[part]; part < len(r.present()) && w.counts(part) {
				t.merge(s.Tally)
				u.cpu += s.CPU.Seconds()
				u.rss = s.RSS
			}
		}
		list = append(list, report.Loader{Name: j.Name, Here: j.Here, Agents: r.shareOf(i), Results: t.results, Lag: report.LatencyOf(t.lag), AgentBytes: r.arrived[i].Bytes,
			Clock: ms(j.Clock), Usage: u.of(t.results)})
	}
	return list
}

// cost is what one loader used in the parts that count.
type cost struct {
	cpu, span float64 // seconds
	rss       int64
}

// alone is what this process used.
func (g *gained) alone() cost {
	return cost{g.loader.Seconds(), g.length.Seconds(), g.last.loader.rss}
}

func (c cost) of(results uint64) report.Usage {
	u := report.Usage{RSS: c.rss}
	if c.span > 0 {
		u.Cores = c.cpu / c.span
	}
	if results > 0 {
		u.MicrosPerItem = c.cpu * 1e6 / float64(results)
	}
	return u
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
