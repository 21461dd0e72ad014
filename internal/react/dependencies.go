package react

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// dependencyHold returns the hold of a problem while a dependency is open, may be about to open, or closed a
// moment ago; nil: none holds.
func (r *router) dependencyHold(e *escalation, p *model.Problem, now time.Time) *route.Hold {
	if r.Dependencies == nil {
		return nil
	}
	masters := r.Dependencies(e.NodeID, e.Source)
	if len(masters) == 0 {
		return nil
	}
	hold, master := route.DependencyHold(masters, func(node model.NodeID, check model.CheckID) *model.Problem {
		now, _ := r.Present(node, model.CheckSource(check))
		return now.problemNow()
	})
	if hold != nil {
		r.waitForDependency(e, master.ID)
		return hold
	}
	was := e.Held
	if was != nil && (was.Kind == route.Unreachable || was.Kind == route.Dependent) {
		if was.Until.After(now) {
			return was
		}
		if was.Until.IsZero() {
			back := *was
			back.Reason, back.Until = "the dependency is back; problems that remain are notified", now.Add(r.twoIntervals(p))
			return &back
		}
	}
	if len(e.Notified) > 0 {
		return nil
	}
	var settling *route.Hold
	for i := range masters {
		m := &masters[i]
		if s, ok := r.Present(m.Node, model.CheckSource(m.Check)); !ok || s.Status == model.OK && s.Executed >= e.Opened.UnixNano() {
			continue // it has no event, or is OK since
		}
		if until := e.Opened.Add(m.Settle); until.After(now) && (settling == nil || until.After(settling.Until)) {
			settling = m.Hold("the dependency may fail, too; its next result is due by then", until)
		}
	}
	return settling
}

// twoIntervals of the check that has the problem: by then it was judged anew.
func (r *router) twoIntervals(p *model.Problem) time.Duration {
	if c := r.names.CheckChunk(p.Chunk); p.Source.Kind == model.SourceCheck && c != nil && c.Interval > 0 {
		return 2 * c.Interval
	}
	return 2 * time.Minute // it runs at times of the clock
}

// waitForDependency registers an escalation to be evaluated again when its dependency closes.
func (r *router) waitForDependency(e *escalation, master string) {
	if e.dependency == master {
		return
	}
	r.releaseDependency(e)
	if e.dependency = master; r.dependents[master] == nil {
		r.dependents[master] = map[*escalation]bool{}
	}
	r.dependents[master][e] = true
}

func (r *router) releaseDependency(e *escalation) {
	if delete(r.dependents[e.dependency], e); len(r.dependents[e.dependency]) == 0 {
		delete(r.dependents, e.dependency)
	}
	e.dependency = ""
}

// dependencyEased evaluates dependents again when a dependency's status is below critical.
func (r *router) dependencyEased(t *event.Transition, now time.Time) {
	if t.Status >= model.Critical {
		return
	}
	if s, ok := r.Present(t.Node, t.Source); ok && s.Problem != nil {
		r.dependencyClosed(s.Problem.ID, now)
	}
}

// dependencyClosed evaluates the dependents of a closed problem again.
func (r *router) dependencyClosed(master string, now time.Time) {
	for e := range r.dependents[master] {
		r.releaseDependency(e)
		r.reevaluate(e, now)
	}
}
