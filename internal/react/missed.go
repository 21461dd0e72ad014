package react

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// missed is the net under all that hands changes on: problems that the view has open and history
// does not know, and the other way round. What is on its way when the server starts is among them
// until it is recorded; what is left then was lost.
type missed struct {
	at     journal.Position        // what the view emitted up to there is on its way
	opened []*model.Problem        // in the view, and not open in history
	closed map[string]sourceOnNode // open in history, and not in the view
}

// Compare notes in which open problems (each calls fn with those of the view, which has applied all
// up to a commit) history differs. Call it between Load and Run, before anything new is emitted.
func (r *Reactor) Compare(at journal.Position, each func(fn func(*model.Problem))) {
	m := &missed{at: at, closed: r.router.known}
	r.router.known = nil
	each(func(p *model.Problem) {
		if _, known := m.closed[p.ID]; known {
			delete(m.closed, p.ID)
		} else {
			m.opened = append(m.opened, p)
		}
	})
	r.missed = m
}

// makeUp tells what history missed, once it has all that was on its way.
func (r *Reactor) makeUp(ctx context.Context) error {
	m := r.missed
	if m == nil {
		return nil
	}
	if oldest, _, waits, _ := r.backlog.oldest(); waits && oldest.Number <= m.at.Number {
		return nil
	}
	r.missed = nil
	if err := r.openLate(ctx, m); err != nil {
		return err
	}
	return r.closeLate(ctx, m)
}

// openLate opens the problems whose opening was lost. Of those that opened when this history was not there,
// for it was begun or restored later, nobody can tell who was told: they are written down, so that they are
// asked about once.
func (r *Reactor) openLate(ctx context.Context, m *missed) error {
	var known map[string]bool
	if err := r.insist(ctx, "history cannot be read", 0, func() (err error) {
		ids := make([]string, len(m.opened))
		for i, p := range m.opened {
			ids[i] = p.ID
		}
		known, err = r.opts.Store.Known(ctx, ids)
		return err
	}); err != nil {
		return err
	}
	lost := slices.DeleteFunc(m.opened, func(p *model.Problem) bool {
		s, ok := r.opts.Present(p.NodeID, p.Source)
		return known[p.ID] || !ok || s.Problem == nil || s.Problem.ID != p.ID // its end, too, is on its way
	})
	slices.SortFunc(lost, func(a, b *model.Problem) int { return cmp.Compare(a.ID, b.ID) })
	strange := 0
	for some := range slices.Chunk(lost, r.opts.BatchSize) {
		var b rows
		for _, p := range some {
			t := r.openingNow(p)
			of := turn{Transition: t, problem: r.problem(t), late: true}
			if b.Opened = append(b.Opened, of.problem); !r.before(p.Opened) {
				b.strange = append(b.strange, of)
				strange++
				r.metrics.missed.WithLabelValues("adopted").Inc()
				continue
			}
			b.turns = append(b.turns, of)
			r.metrics.missed.WithLabelValues("opened").Inc()
			r.opts.Logger.Error("a problem is open whose opening never came to history: it is told now", "problem", p.ID,
				"namespace", of.problem.Namespace, "node", of.problem.Node, "source", of.problem.SourceName, "opened", p.Opened)
		}
		if err := r.write(ctx, b, 0); err != nil {
			return err
		}
	}
	if strange > 0 {
		r.opts.Logger.Warn("history was begun or restored after problems opened that are open still: they are written down, and nobody is told of them", "problems", strange, "attended", r.attended)
	}
	return nil
}

// openingNow is the transition that was lost, as far as the view still knows it.
func (r *Reactor) openingNow(p *model.Problem) *event.Transition {
	s, _ := r.opts.Present(p.NodeID, p.Source)
	return &event.Transition{
		Kind: event.ProblemOpened, Node: p.NodeID, Namespace: s.Namespace, Source: p.Source, Chunk: p.Chunk, Status: s.Status, Severity: s.Severity,
		Received: p.Opened.UnixNano(), Executed: s.Executed, Output: s.Output, Problem: cmp.Or(s.Problem, p), Hooks: s.Hooks, Expired: s.Expired,
	}
}

// closeLate ends problems whose end was lost. Where the view knows nothing of an event that there
// is, whether it ended nobody can tell.
func (r *Reactor) closeLate(ctx context.Context, m *missed) error {
	var b rows
	for id, of := range m.closed {
		s, ok := r.opts.Present(of.node, of.source)
		_, _, node := r.opts.Names.NodeName(of.node)
		_, _, source := r.opts.Names.SourceName(of.source)
		if ok && s.Problem != nil && s.Problem.ID == id || !ok && node && source {
			continue
		}
		if err := r.insist(ctx, "history cannot be read", 0, func() error {
			p, err := r.opts.Store.Problem(ctx, id)
			if err == nil && p.Closed.IsZero() {
				b.turns = append(b.turns, r.endingNow(p, s, ok))
			} else if model.ClassOf(err) == model.NotFound {
				err = nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	slices.SortFunc(b.turns, func(a, b turn) int { return cmp.Compare(a.problem.ID, b.problem.ID) })
	for i := range b.turns {
		p := &b.turns[i].problem
		b.Closed = append(b.Closed, *p)
		r.metrics.missed.WithLabelValues("closed").Inc()
		r.opts.Logger.Error("a problem is over whose end never came to history: it is told now", "problem", p.ID,
			"namespace", p.Namespace, "node", p.Node, "source", p.SourceName, "closed", p.Closed)
	}
	if len(b.turns) == 0 {
		return nil
	}
	return r.write(ctx, b, 0)
}

// endingNow is the transition that was lost. When it was is known where the event is well since.
func (r *Reactor) endingNow(p history.Problem, s Presence, known bool) turn {
	t := &event.Transition{Kind: event.ProblemClosed, Node: p.NodeID, Namespace: s.Namespace, Source: p.Source, Chunk: p.Chunk, Status: model.OK,
		Received: r.now().UnixNano(), Executed: s.Executed, Problem: &p.Problem}
	switch {
	case !known:
		t.Output, t.Executed = "the event is gone", t.Received
	case s.Status == model.OK:
		t.Output = s.Output
		if s.Changed > p.Opened.UnixNano() {
			t.Received = s.Changed
		}
	default:
		t.Output = "another problem is open"
	}
	t.Output += "\ntold late: its end was lost until the server started"
	p.Closed = time.Unix(0, t.Received).UTC()
	t.Problem = &p.Problem
	return turn{Transition: t, problem: p}
}

// late says of those whose opening was lost, and of which a handler hears for the first time, that it hears late.
func late(list []*escalation, ref history.HandlerRef) string {
	var first time.Time
	n := 0
	for _, e := range list {
		if e.Late && e.knows(ref) == nil {
			if n++; first.IsZero() || e.Opened.Before(first) {
				first = e.Opened
			}
		}
	}
	switch {
	case n == 0:
		return ""
	case len(list) == 1:
		return fmt.Sprintf("\ntold late: it opened at %s, and that was lost until the server started", first.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("\ntold late: %d of them opened from %s on, and that was lost until the server started", n, first.UTC().Format(time.RFC3339))
}
