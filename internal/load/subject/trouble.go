package subject

import (
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
	most  map[string]float64            // limits from above, by figure
	own   map[string]map[string]float64 // likewise, of a phase that has objectives of its own
	rate  float64                       // results/s that are asked; zero: nobody asks
	meant map[string]bool               // phases in which something is broken on purpose

	bad   map[string]int // seconds in a row, by what is wrong
	phase string
	last  []report.Sample // of the phase, rateOver at most
}

// newTrouble takes the limits of a scenario's objectives and phases, and those of goals in
// the stead of the scenario's.
func newTrouble(sc *scenario.Scenario, goals []report.Goal) *trouble {
	t := &trouble{most: map[string]float64{}, own: map[string]map[string]float64{}, bad: map[string]int{}, meant: map[string]bool{}}
	for i := range sc.Phases {
		t.meant[sc.Phases[i].Name] = sc.Phases[i].Fault > 0
	}
	set := func(most map[string]float64, name string, limit float64) {
		if f, ok := scenario.FigureOf(name); ok && !f.Least {
			most[name] = limit
		}
	}
	each := func(limits map[string]scenario.Limit, do func(name string, v float64)) {
		for name, limit := range limits {
			f, _ := scenario.FigureOf(name)
			if v, err := limit.In(f.Unit); err == nil { // checked when the scenario was read
				do(name, v)
			}
		}
	}
	all := func(name string, v float64) {
		if name == "rate" {
			t.rate = v
		}
		set(t.most, name, v)
	}
	each(sc.Objectives, all)
	for i := range sc.Phases {
		if p := &sc.Phases[i]; len(p.Objectives) > 0 {
			t.own[p.Name] = map[string]float64{}
			each(p.Objectives, func(name string, v float64) { set(t.own[p.Name], name, v) })
		}
	}
	for _, g := range goals {
		all(g.Name, g.Want)
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
	own := t.own[s.Phase]
	if t.meant[s.Phase] && own == nil {
		return nil
	}
	note := func(what string, wrong bool) {
		if t.bad[what]++; !wrong {
			t.bad[what] = 0
		}
	}
	figures := s.Figures()
	exceeds := func(limits map[string]float64) {
		for name, limit := range limits {
			if v, ok := figures[name]; ok {
				note(name, v > limit)
			}
		}
	}
	if exceeds(own); !t.meant[s.Phase] {
		note("results are refused", s.Refused > 0)
		note("results stay away", s.Offered > 0 && s.Acked < s.Offered/2)
		note("rate", t.slow(s))
		rest := maps.Clone(t.most)
		maps.DeleteFunc(rest, func(name string, _ float64) bool { _, ok := own[name]; return ok })
		exceeds(rest)
	}
	for _, what := range slices.Sorted(maps.Keys(t.bad)) {
		if t.bad[what] >= brokenFor {
			list = append(list, what)
		}
	}
	return list
}

// slow says that less than the rate that is asked came within the last seconds of a phase,
// though as much was offered.
func (t *trouble) slow(s *report.Sample) bool {
	if t.last = append(t.last, *s); len(t.last) > rateOver {
		t.last = t.last[1:]
	}
	if t.rate == 0 || len(t.last) < rateOver {
		return false
	}
	offered, acked := 0.0, 0.0
	for i := range t.last {
		offered += float64(t.last[i].Offered)
		acked += float64(t.last[i].Acked)
	}
	return offered >= rateOver*t.rate && acked < rateShare*rateOver*t.rate
}
