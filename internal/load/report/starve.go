package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Where no objective says how late something may be: twice as much as the results grew, and
// what nobody notices. Few answers say nothing: who had no more is named, and not judged.
const (
	besideShare = 2
	besideMs    = 250
	besideS     = 2
	besideFew   = scenario.FewAnswers
)

// starved notes which of the others a faster phase starves, by the goals or else by what the
// phase before had of them, and of whom there were too few answers to say.
func starved(goals []Goal, before, p *Played) {
	grown := p.grown(before)
	say := func(b *Beside, now, was, bound string) {
		pair := p.Name + " starves " + b.who()
		p.Starved = append(p.Starved, pair)
		p.Missed = append(p.Missed, fmt.Sprintf("%s: %s, %s in %s; %s", pair, now, was, before.Name, bound))
	}
	few := func(b *Beside, then, now uint64) {
		p.NotJudged = append(p.NotJudged, fmt.Sprintf("%s: %d answers in %s, %d here; %d are needed", b.who(), then, before.Name, now, besideFew))
	}
	timed := func(b *Beside) bool { return b.Figure != HeldShare && b.Figure != HistoryBehind }
	for i := range before.Beside {
		was := &before.Beside[i]
		if grown[was.pipeline()] > 1 {
			continue // it is what was asked to do more
		}
		n := slices.IndexFunc(p.Beside, func(b Beside) bool { return b.Figure == was.Figure && b.Class == was.Class })
		f, _ := scenario.FigureOf(was.Figure)
		short := func(v float64) string { return number.In(v, f.Unit) }
		if n < 0 {
			if fair := float64(was.Count) * (p.To - p.From) / (before.To - before.From); fair >= besideFew && was.asks() {
				say(was, "no answer at all", short(was.Value), fmt.Sprintf("%d answers there", was.Count))
			} else if timed(was) {
				few(was, was.Count, 0)
			}
			continue
		}
		b := &p.Beside[n]
		now, then := short(b.Value), short(was.Value)
		if b.Figure == HeldShare {
			if b.Class != "" && !p.anyClassHeld() {
				continue // all were late: none had what another lacked
			}
			if least := 100 * Enough; b.Value < least && was.Value >= least {
				say(b, now+" of its rate", then, "asked at least "+short(least))
			}
			continue
		}
		if g := slices.IndexFunc(goals, func(g Goal) bool { return g.Name == b.Figure }); g >= 0 {
			if limit := goals[g].Want; b.Value > limit && was.Value <= limit {
				say(b, now, then, "asked at most "+short(limit))
			}
			continue
		}
		slack := float64(besideMs)
		if b.Figure == HistoryBehind {
			slack = besideS
		} else if min(b.Count, was.Count) < besideFew {
			few(b, was.Count, b.Count)
			continue
		}
		times, what := most(grown)
		if fair := besideShare*was.Value*times + slack; b.Value > fair {
			say(b, now, then, fmt.Sprintf("at %s times the %s at most %s is fair", number.Round(times, 1), what, short(fair)))
		}
	}
	for i := range p.Beside {
		b := &p.Beside[i]
		known := slices.ContainsFunc(before.Beside, func(was Beside) bool { return was.Figure == b.Figure && was.Class == b.Class })
		if !known && timed(b) && !(grown[b.pipeline()] > 1) {
			few(b, 0, b.Count)
		}
	}
}

// anyClassHeld says whether the results of some class were answered in time.
func (p *Played) anyClassHeld() bool {
	return slices.ContainsFunc(p.Beside, func(b Beside) bool { return b.Figure == HeldShare && b.Class != "" && b.Value >= 100*Enough })
}

// speed is how fast a pipeline was, of its usual speed.
func (p *Played) speed(pipeline string) float64 {
	if pipeline == scenario.Results {
		return p.Rate
	}
	return cmp.Or(p.Faster[pipeline], 1)
}

// grown says how many times as fast each pipeline was as in another phase.
func (p *Played) grown(before *Played) map[string]float64 {
	times := map[string]float64{}
	for _, name := range scenario.Pipelines() {
		times[name] = p.speed(name) / before.speed(name)
	}
	return times
}

// most is the pipeline that grew most, in words that follow "times the".
func most(grown map[string]float64) (times float64, what string) {
	for _, name := range scenario.Pipelines() {
		if grown[name] > times {
			times, what = grown[name], name
		}
	}
	if what == scenario.Results {
		what = "rate"
	}
	return times, what
}

// asks says that it is somebody who asks again and again.
func (b *Beside) asks() bool { return b.pipeline() == scenario.People }

// pipeline is the one whose own figure it is: where that is sped up, it may be worse. Empty:
// it is judged in any case, as those who watch, history, and one class beside the others.
func (b *Beside) pipeline() string {
	switch b.Figure {
	case "list-p99", "apply-p99", "silence-p99", "run-p99", "fact-p99":
		return scenario.People
	case "holds-p99":
		return scenario.Intent
	case "tell-p99":
		return scenario.Alerts
	case BeyondLinger, HeldShare:
		if b.Class == "" {
			return scenario.Results
		}
	}
	return ""
}

func (b *Beside) who() string {
	switch b.Figure {
	case "list-p99":
		return "people who list"
	case "apply-p99":
		return "people who write resources"
	case "silence-p99":
		return "people who make silences"
	case "run-p99":
		return "people who run commands"
	case "fact-p99":
		return "facts that change"
	case "watch-p99":
		return "people who watch"
	case "holds-p99":
		return "agents that wait for intent"
	case "tell-p99":
		return "people who are notified of problems"
	case HistoryBehind:
		return "history"
	}
	if b.Class == "" {
		return "the results"
	}
	return "class " + b.Class
}

// Overtakes compares a phase with the last of those before it in which no pipeline was faster
// and some slower. What is there to break something (steps, and what is apart) is not compared.
func Overtakes(goals []Goal, before []*Played, p *Played, apart bool) []*Played {
	if apart || p.Kind == KindStep {
		return before
	}
	for i := len(before) - 1; i >= 0; i-- {
		least, most := math.Inf(1), 0.0
		for _, times := range p.grown(before[i]) {
			least, most = min(least, times), max(most, times)
		}
		if least >= 1 && most > 1 {
			starved(goals, before[i], p)
			break
		}
	}
	seen := *p
	return append(before, &seen)
}

// Enough is the share of what is offered in a step that must be acknowledged while it lasts.
const Enough = 0.98
