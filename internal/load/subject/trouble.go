package subject

import (
	"cmp"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

const (
	brokenFor = 2    // seconds in a row that show a figure beyond its limit, so that one hiccup is none
	rateOver  = 10   // seconds over which a rate is looked at: results come in bursts
	rateShare = 0.98 // of what is asked: what is on its way when one begins to look, and when one ends
)

// trouble follows, second by second, which objectives break. One that cannot be judged while
// a run goes on (memory, CPU, what is asked in the end) is not among them.
type trouble struct {
	whole bounds
	own   map[int]bounds // of phases that have objectives of their own, by their numbers in the scenario, from 1
	meant map[int]bool   // phases in which something is broken on purpose

	bad   map[string]int // seconds in a row, by what is wrong
	phase string
	last  []report.Sample // of the phase, rateOver at most
}

// bounds are the limits of the whole run, or of one phase.
type bounds struct {
	most map[string]float64 // from above, by figure
	rate float64            // results/s that are asked; zero: nobody asks
}

func newBounds() bounds { return bounds{most: map[string]float64{}} }

// set takes the limit of a figure; most of those from below are only known in the end.
func (l *bounds) set(name string, v float64) {
	switch f, ok := scenario.FigureOf(name); {
	case name == "rate":
		l.rate = v
	case ok && !f.Least:
		l.most[name] = v
	}
}

// take takes those of objectives, which were checked when the scenario was read.
func (l *bounds) take(objectives map[string]scenario.Limit) {
	for name, limit := range objectives {
		f, _ := scenario.FigureOf(name)
		if v, err := limit.In(f.Unit); err == nil {
			l.set(name, v)
		}
	}
}

// newTrouble takes the limits of a scenario's objectives and phases, and those of goals in
// the stead of the scenario's.
func newTrouble(sc *scenario.Scenario, goals []report.Goal) *trouble {
	t := &trouble{whole: newBounds(), own: map[int]bounds{}, bad: map[string]int{}, meant: map[int]bool{}}
	t.whole.take(sc.Objectives)
	for _, g := range goals {
		t.whole.set(g.Name, g.Want)
	}
	for i := range sc.Phases {
		p := &sc.Phases[i]
		t.meant[i+1] = p.Fault > 0
		if len(p.Objectives) > 0 {
			l := newBounds()
			l.take(p.Objectives)
			t.own[i+1] = l
		}
	}
	return t
}

// see looks at a second, and says what has been wrong for long enough, sorted. A second that
// does not show a figure leaves it as it was: people do not ask every second.
func (t *trouble) see(s *report.Sample) (list []string) {
	if s.Phase != t.phase { // each is looked at by itself
		t.phase, t.last = s.Phase, t.last[:0]
		clear(t.bad)
	}
	own, meant := t.own[s.Nth], t.meant[s.Nth]
	note := func(what string, wrong bool) {
		if t.bad[what]++; !wrong {
			t.bad[what] = 0
		}
	}
	figures := s.Figures()
	exceeds := func(most map[string]float64) {
		for name, limit := range most {
			if v, ok := figures[name]; ok {
				note(name, v > limit)
			}
		}
	}
	exceeds(own.most)
	rate := own.rate
	if !meant {
		note("results are refused", s.Refused > 0)
		note("results stay away", s.Offered > 0 && s.Acked < s.Offered/2)
		rest := maps.Clone(t.whole.most)
		maps.DeleteFunc(rest, func(name string, _ float64) bool { _, ok := own.most[name]; return ok })
		exceeds(rest)
		rate = cmp.Or(rate, t.whole.rate)
	}
	note("rate", t.slow(s, rate))
	for _, what := range slices.Sorted(maps.Keys(t.bad)) {
		if t.bad[what] >= brokenFor {
			list = append(list, what)
		}
	}
	return list
}

// slow says that less than the rate that is asked came within the last seconds of a phase,
// though as much was offered.
func (t *trouble) slow(s *report.Sample, rate float64) bool {
	if t.last = append(t.last, *s); len(t.last) > rateOver {
		t.last = t.last[1:]
	}
	if rate == 0 || len(t.last) < rateOver {
		return false
	}
	offered, acked := 0.0, 0.0
	for i := range t.last {
		offered += float64(t.last[i].Offered)
		acked += float64(t.last[i].Acked)
	}
	return offered >= rateOver*rate && acked < rateShare*rateOver*rate
}
