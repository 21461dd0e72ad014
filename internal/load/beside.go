package load

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What shares a server with the results must not pay for it when those are sped up: people
// who list, write and watch, agents that wait for intent, history, and each class of agents.
// Each is timed phase by phase, and a phase at a higher rate is compared with the one before.

// Beside is one of them, as it went in one phase.
type Beside struct {
	Figure string  `json:"figure"`          // list-p99, apply-p99, silence-p99, watch-p99, holds-p99, history-behind, or held
	Class  string  `json:"class,omitempty"` // of held
	Count  uint64  `json:"count"`           // answers, arrivals, seconds looked at, results
	Value  float64 `json:"value"`           // in the figure's unit
}

const (
	historyBehind = "history-behind"
	heldShare     = "held"
)

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
		b.took, b.second = map[besideKey]*hdrhistogram.Histogram{}, map[string]*hdrhistogram.Histogram{}
	}
	h := b.took[besideKey{figure, part}]
	if h == nil {
		h = hdrhistogram.New(1, maxLatency, 3)
		b.took[besideKey{figure, part}] = h
	}
	if b.second[figure] == nil {
		b.second[figure] = hdrhistogram.New(1, maxLatency, 2)
	}
	record(h, took, times)
	record(b.second[figure], took, times)
}

// take is the p99 in ms of what was waited for since it was taken last, by figure; nil:
// nobody had an answer.
func (b *besides) take() (p99 map[string]float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for figure, h := range b.second {
		if h.TotalCount() == 0 {
			continue
		}
		if p99 == nil {
			p99 = map[string]float64{}
		}
		p99[figure] = latency(h).P99
		h.Reset()
	}
	return p99
}

// besidesOf lists them for one part; own are its samples, and t what the results came to in it.
func (r *run) besidesOf(part int, own []Sample, t *tally) (list []Beside) {
	b := &r.beside
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, figure := range [...]string{"list-p99", "apply-p99", "silence-p99", "watch-p99", "holds-p99"} {
		if h := b.took[besideKey{figure, part}]; h != nil {
			list = append(list, Beside{Figure: figure, Count: uint64(h.TotalCount()), Value: latency(h).P99})
		}
	}
	behind := Beside{Figure: historyBehind}
	for i := range own {
		if own[i].Behind != nil {
			behind.Count++
			behind.Value = max(behind.Value, *own[i].Behind)
		}
	}
	if behind.Count > 0 {
		list = append(list, behind)
	}
	if len(r.classes) < 2 {
		return list // that is what the phase says anyway
	}
	for i, c := range r.classes {
		if s := t.of(i); s.Meant > 0 {
			list = append(list, Beside{Figure: heldShare, Class: c.spec.Name, Count: s.Meant, Value: 100 * float64(s.Answered) / float64(s.Meant)})
		}
	}
	return list
}

// Where no objective says how late something may be: twice as much as the results grew, and
// what nobody notices. Few answers say nothing.
const (
	besideShare = 2
	besideMs    = 250
	besideS     = 2
	besideFew   = 20
)

// starved says which of the others a faster phase starves, by the goals or else by what the
// phase before had of them.
func (c Config) starved(before, p *Played) (list []string) {
	say := func(b *Beside, now, was, bound string) {
		list = append(list, fmt.Sprintf("%s starves %s: %s, %s in %s; %s", p.Name, b.who(), now, was, before.Name, bound))
	}
	for i := range before.Beside {
		was := &before.Beside[i]
		n := slices.IndexFunc(p.Beside, func(b Beside) bool { return b.Figure == was.Figure && b.Class == was.Class })
		f, _ := figureOf(was.Figure)
		unit := " " + f.Unit
		if n < 0 {
			if fair := float64(was.Count) * (p.To - p.From) / (before.To - before.From); fair >= besideFew && was.asks() {
				say(was, "no answer at all", short(was.Value)+unit, fmt.Sprintf("%d answers there", was.Count))
			}
			continue
		}
		b := &p.Beside[n]
		now, then := short(b.Value)+unit, short(was.Value)+unit
		if b.Figure == heldShare {
			if least := 100 * enough; b.Value < least && was.Value >= least {
				say(b, now+" of its rate", then, fmt.Sprintf("asked at least %s%s", short(least), unit))
			}
			continue
		}
		if g := slices.IndexFunc(c.Goals, func(g Goal) bool { return g.Name == b.Figure }); g >= 0 {
			if limit := c.Goals[g].Want; b.Value > limit && was.Value <= limit {
				say(b, now, then, "asked "+Goal{Want: limit}.asked(f))
			}
			continue
		}
		slack, few := float64(besideMs), uint64(besideFew)
		if b.Figure == historyBehind {
			slack, few = besideS, 1
		}
		if most := besideShare*was.Value*p.Rate/before.Rate + slack; b.Value > most && min(b.Count, was.Count) >= few {
			say(b, now, then, fmt.Sprintf("at %s times the rate at most %s%s is fair", strings.TrimSuffix(short(p.Rate/before.Rate), ".0"), short(most), unit))
		}
	}
	return list
}

// asks says that it is somebody who asks again and again.
func (b *Beside) asks() bool {
	return b.Figure == "list-p99" || b.Figure == "apply-p99" || b.Figure == "silence-p99"
}

func (b *Beside) who() string {
	switch b.Figure {
	case "list-p99":
		return "people who list"
	case "apply-p99":
		return "people who write resources"
	case "silence-p99":
		return "people who make silences"
	case "watch-p99":
		return "people who watch"
	case "holds-p99":
		return "agents that wait for intent"
	case historyBehind:
		return "history"
	}
	return "class " + b.Class
}

// overtakes compares a phase with the one before it, where that was slower, and returns what
// the next is compared with. What is there to break something (steps, and what is apart) is
// not compared.
func (c Config) overtakes(before, p *Played, apart bool) *Played {
	if apart || p.Kind == kindStep {
		return before
	}
	if before != nil && p.Rate > before.Rate {
		p.Missed = append(p.Missed, c.starved(before, p)...)
	}
	seen := *p
	return &seen
}
