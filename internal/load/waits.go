package load

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/report"
)

// What shares a server must not pay for it when a pipeline is sped up: the results, people who
// list, write, run and watch, agents that wait for intent, who is told of problems, history, and
// each class of agents. Each is timed phase by phase, and a phase in which some pipeline is
// faster, and none slower, is compared with the last one of which that is so.

// besides counts what people and agents waited for, by figure and by the part of the score
// in which that began. Its lock is taken last.
type besides struct {
	mu     sync.Mutex
	took   map[besideKey]*hdrhistogram.Histogram // µs
	second map[string]*hdrhistogram.Histogram    // since they were taken last, by figure
}

type besideKey struct {
	figure string
	part   int
}

// waited notes for how long so many waited from an instant on.
func (r *run) waited(figure string, at, took, times int64) {
	part, b := r.present().at(at), &r.beside
	if part < 0 || times == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.took == nil {
		b.took = map[besideKey]*hdrhistogram.Histogram{}
	}
	if b.second == nil {
		b.second = map[string]*hdrhistogram.Histogram{}
	}
	h := b.took[besideKey{figure, part}]
	if h == nil {
		h = hdrhistogram.New(1, maxLatency, 3)
		b.took[besideKey{figure, part}] = h
	}
	if b.second[figure] == nil {
		b.second[figure] = newWaits()
	}
	record(h, took, times)
	record(b.second[figure], took, times)
}

// newWaits counts what was waited for in a second.
func newWaits() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 2) }

// take takes what was waited for since it was taken last, by figure.
func (b *besides) take() map[string]*hdrhistogram.Histogram {
	b.mu.Lock()
	defer b.mu.Unlock()
	second := b.second
	b.second = map[string]*hdrhistogram.Histogram{}
	return second
}

// waits are the p99 in ms of each; nil: nobody had an answer.
func waits(second map[string]*hdrhistogram.Histogram) (p99 map[string]float64) {
	for figure, h := range second {
		if p99 == nil {
			p99 = map[string]float64{}
		}
		p99[figure] = report.LatencyOf(h).P99
	}
	return p99
}

// besidesOf lists them for one part; own are its samples, and t what the results came to in it.
func (r *run) besidesOf(part int, own []report.Sample, t *tally) (list []report.Beside) {
	b := &r.beside
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, figure := range [...]string{"list-p99", "apply-p99", "silence-p99", "run-p99", "fact-p99", "watch-p99", holdsFigure, "tell-p99"} {
		if h := b.took[besideKey{figure, part}]; h != nil {
			list = append(list, report.Beside{Figure: figure, Count: uint64(h.TotalCount()), Value: report.LatencyOf(h).P99})
		}
	}
	behind := report.Beside{Figure: report.HistoryBehind}
	for i := range own {
		if own[i].Behind != nil {
			behind.Count++
			behind.Value = max(behind.Value, *own[i].Behind)
		}
	}
	if behind.Count > 0 {
		list = append(list, behind)
	}
	if r.hurries { // else that is what the phase says anyway
		if offered := t.results + t.dropped; offered > 0 {
			list = append(list, report.Beside{Figure: report.BeyondLinger, Count: t.acked, Value: report.LatencyOf(t.beyond).P99},
				report.Beside{Figure: report.HeldShare, Count: offered, Value: min(100, 100*float64(t.inTime)/float64(offered))})
		}
	}
	if len(r.classes) < 2 {
		return list
	}
	for i, c := range r.classes {
		if s := t.of(i); s.Meant > 0 {
			list = append(list, report.Beside{Figure: report.HeldShare, Class: c.spec.Name, Count: s.Meant, Value: 100 * float64(s.Answered) / float64(s.Meant)})
		}
	}
	return list
}
