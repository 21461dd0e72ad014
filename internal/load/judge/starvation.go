package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// A wait without an objective may grow twice as fast as the load, plus a fixed time.
const (
	fairShare   = 2
	fairMs      = 250
	fairSeconds = 2 // of history
)

// sharer is a user of the server whose waits are measured in each phase.
type sharer struct {
	figure   string // of its waits
	name     string
	pipeline string // it may wait longer in a phase that speeds this up; empty: in none
}

// sharers returns the users beside the results, in the order of reports.
func sharers() []sharer {
	return []sharer{
		{"list-p99", "people who list", scenario.People}, {"apply-p99", "people who write resources", scenario.People}, {"silence-p99", "people who make silences", scenario.People},
		{"run-p99", "people who run commands", scenario.People}, {"fact-p99", "facts that change", scenario.People}, {"watch-p99", "people who watch", ""},
		{"holds-p99", "agents that wait for intent", scenario.Intent}, {tellFigure, "people who are notified of problems", scenario.Alerts}, {report.HistoryBehind, "history", ""},
	}
}

// sharerOf returns the user that a figure of a phase belongs to.
func sharerOf(b *report.Beside) sharer {
	for _, s := range sharers() {
		if s.figure == b.Figure {
			return s
		}
	}
	if b.Class != "" {
		return sharer{b.Figure, "class " + b.Class, ""}
	}
	return sharer{b.Figure, "the results", scenario.Results}
}

// Starvation compares a phase with the last earlier one in which no pipeline was faster and some were slower, and adds the
// users that it starves to its Starved and Missed. Steps, and phases that are judged apart, are meant to break something
// and are not compared. It returns the phases for the next call.
func Starvation(goals []report.Goal, before []*report.Played, p *report.Played, apart bool) []*report.Played {
	if apart || p.Kind == report.KindStep {
		return before
	}
	for _, b := range slices.Backward(before) {
		grown := growth(b, p)
		least, most := math.Inf(1), 0.0
		for _, times := range grown {
			least, most = min(least, times), max(most, times)
		}
		if least >= 1 && most > 1 {
			starved(goals, b, p, grown)
			break
		}
	}
	seen := *p
	return append(before, &seen)
}

// growth returns the speed of each pipeline in a phase, relative to an earlier one.
func growth(before, p *report.Played) map[string]float64 {
	speed := func(p *report.Played, pipeline string) float64 {
		if pipeline == scenario.Results {
			return p.Rate
		}
		return cmp.Or(p.Faster[pipeline], 1)
	}
	times := map[string]float64{}
	for _, name := range scenario.Pipelines() {
		times[name] = speed(p, name) / speed(before, name)
	}
	return times
}

// starved judges each user by the objective of its figure, or else by the figure of the earlier phase. Users with few
// answers are not judged.
func starved(goals []report.Goal, before, p *report.Played, grown map[string]float64) {
	find := func(list []report.Beside, b *report.Beside) int {
		return slices.IndexFunc(list, func(x report.Beside) bool { return x.Figure == b.Figure && x.Class == b.Class })
	}
	few := func(b *report.Beside, then, now uint64) {
		if b.Figure != report.HeldShare && b.Figure != report.HistoryBehind {
			p.NotJudged = append(p.NotJudged, fmt.Sprintf("%s: %d answers in %s, %d here; %d are needed", sharerOf(b).name, then, before.Name, now, scenario.FewAnswers))
		}
	}
	for i := range before.Beside {
		was := &before.Beside[i]
		user := sharerOf(was)
		if grown[user.pipeline] > 1 {
			continue // more was asked of it
		}
		f, _ := scenario.FigureOf(was.Figure)
		text := func(v float64) string { return number.In(v, f.Unit) }
		add := func(now, bound string) {
			pair := p.Name + " starves " + user.name
			p.Starved = append(p.Starved, pair)
			p.Missed = append(p.Missed, fmt.Sprintf("%s: %s, %s in %s; %s", pair, now, text(was.Value), before.Name, bound))
		}
		n := find(p.Beside, was)
		if n < 0 {
			if due := float64(was.Count) * (p.To - p.From) / (before.To - before.From); due >= scenario.FewAnswers && user.pipeline == scenario.People {
				add("no answer at all", fmt.Sprintf("%d answers there", was.Count))
			} else {
				few(was, was.Count, 0)
			}
			continue
		}
		b := &p.Beside[n]
		g := slices.IndexFunc(goals, func(g report.Goal) bool { return g.Name == b.Figure })
		switch least := 100 * report.Enough; {
		case b.Figure == report.HeldShare: // where all classes were late, none took the share of another
			if b.Value < least && was.Value >= least && (b.Class == "" || anyClassHeld(p)) {
				add(text(b.Value)+" of its rate", "asked at least "+text(least))
			}
		case g >= 0:
			if limit := goals[g].Want; b.Value > limit && was.Value <= limit {
				add(text(b.Value), "asked at most "+text(limit))
			}
		case b.Figure != report.HistoryBehind && min(b.Count, was.Count) < scenario.FewAnswers:
			few(b, was.Count, b.Count)
		default:
			slack := float64(fairMs)
			if b.Figure == report.HistoryBehind {
				slack = fairSeconds
			}
			times, what := mostGrown(grown)
			if fair := fairShare*was.Value*times + slack; b.Value > fair {
				add(text(b.Value), fmt.Sprintf("at %s times the %s at most %s is fair", number.Round(times, 1), what, text(fair)))
			}
		}
	}
	for i := range p.Beside {
		if b := &p.Beside[i]; find(before.Beside, b) < 0 && !(grown[sharerOf(b).pipeline] > 1) {
			few(b, 0, b.Count)
		}
	}
}

// anyClassHeld reports whether the results of some class were answered in time.
func anyClassHeld(p *report.Played) bool {
	return slices.ContainsFunc(p.Beside, func(b report.Beside) bool {
		return b.Figure == report.HeldShare && b.Class != "" && b.Value >= 100*report.Enough
	})
}

// mostGrown names the pipeline that grew most.
func mostGrown(grown map[string]float64) (times float64, name string) {
	for _, pipeline := range scenario.Pipelines() {
		if grown[pipeline] > times {
			times, name = grown[pipeline], pipeline
		}
	}
	if name == scenario.Results {
		name = "rate"
	}
	return times, name
}
