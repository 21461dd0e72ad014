package react

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// hanging is what keeps a problem back that hangs on another: that this one is open; that it
// may be about to open; that it closed a moment ago, and what hangs on it may be about to pass.
func (r *router) hanging(e *escalation, p *model.Problem, now time.Time) *route.Hold {
	if r.opts.Masters == nil {
		return nil
	}
	masters := r.opts.Masters(e.NodeID, e.Source)
	if len(masters) == 0 {
		return nil
	}
	hold, master := route.Masked(masters, func(node model.NodeID, check model.CheckID) *model.Problem {
		now, _ := r.opts.Present(node, model.CheckSource(check))
		return now.problemNow()
	})
	if hold != nil {
		r.hangOn(e, master.ID)
		return hold
	}
	was := e.Held
	if was != nil && (was.Kind == route.Unreachable || was.Kind == route.Dependent) {
		if was.Until.After(now) {
			return was
		}
		if was.Until.IsZero() {
			back := *was
			back.Reason, back.Until = "it is back, and what still fails is told", now.Add(r.twoIntervals(p))
			return &back
		}
	}
	if len(e.Told) > 0 {
		return nil
	}
	var settling *route.Hold
	for i := range masters {
		m := &masters[i]
		if s, ok := r.opts.Present(m.Node, model.CheckSource(m.Check)); !ok || s.Status == model.OK && s.Executed >= e.Opened.UnixNano() {
			continue // nothing is known of it, or that it is well
		}
		if until := e.Opened.Add(m.Settle); until.After(now) && (settling == nil || until.After(settling.Until)) {
			settling = m.Hold("whether it fails too is known by then", until)
		}
	}
	return settling
}

// twoIntervals of the check that has the problem: by then it was judged anew.
func (r *router) twoIntervals(p *model.Problem) time.Duration {
	if c := r.opts.Names.Chunk(p.Chunk); p.Source.Kind == model.SourceCheck && c != nil && c.Interval > 0 {
		return 2 * c.Interval
	}
	return 2 * time.Minute // it runs at times of the clock
}

// hangOn remembers that an escalation waits for the end of another problem.
func (r *router) hangOn(e *escalation, master string) {
	if e.master == master {
		return
	}
	r.letGo(e)
	if e.master = master; r.hangs[master] == nil {
		r.hangs[master] = map[*escalation]bool{}
	}
	r.hangs[master][e] = true
}

func (r *router) letGo(e *escalation) {
	if delete(r.hangs[e.master], e); len(r.hangs[e.master]) == 0 {
		delete(r.hangs, e.master)
	}
	e.master = ""
}

// eased looks again at what hangs on a problem that is no longer as bad as to hold others back.
func (r *router) eased(t *event.Transition, now time.Time) {
	if t.Status >= model.Critical {
		return
	}
	if s, ok := r.opts.Present(t.Node, t.Source); ok && s.Problem != nil {
		r.ended(s.Problem.ID, now)
	}
}

// ended looks again at what hung on a problem that has closed.
func (r *router) ended(master string, now time.Time) {
	for e := range r.hangs[master] {
		r.letGo(e)
		r.again(e, now)
	}
}
