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

// reconciliation holds the problems in which history differed from the event view at the start. Some of their
// transitions were only late, and are recorded soon; the rest were lost.
type reconciliation struct {
	at     journal.Position        // last position whose transitions the replay emits
	opened []*model.Problem        // problems that are open in the view and not in history
	closed map[string]sourceOnNode // problems that are open in history and not in the view
}

// Compare finds the open problems in which history differs from the event view. The view has applied all commits up to a
// position; each calls fn with each of its open problems. Call Compare after Load and before Run, before new transitions
// are emitted.
func (r *Reactor) Compare(at journal.Position, each func(fn func(*model.Problem))) {
	m := &reconciliation{at: at, closed: r.router.openInHistory}
	r.router.openInHistory = nil
	each(func(p *model.Problem) {
		if _, known := m.closed[p.ID]; known {
			delete(m.closed, p.ID)
		} else {
			m.opened = append(m.opened, p)
		}
	})
	r.reconciliation = m
}

// reconcile opens and closes the problems whose transitions were lost. It waits until all late transitions are recorded.
func (r *Reactor) reconcile(ctx context.Context) error {
	m := r.reconciliation
	if m == nil {
		return nil
	}
	if oldest, _, waits, _ := r.backlog.oldest(); waits && oldest.Number <= m.at.Number {
		return nil
	}
	r.reconciliation = nil
	if err := r.openMissed(ctx, m); err != nil {
		return err
	}
	return r.closeMissed(ctx, m)
}

// openMissed opens the problems whose opening was lost. Problems that opened before this history was created or restored
// are only recorded, because history does not know which handlers were notified.
func (r *Reactor) openMissed(ctx context.Context, m *reconciliation) error {
	var known map[string]bool
	if err := r.retry(ctx, "cannot read history", 0, func() (err error) {
		ids := make([]string, len(m.opened))
		for i, p := range m.opened {
			ids[i] = p.ID
		}
		known, err = r.opts.Store.KnownProblems(ctx, ids)
		return err
	}); err != nil {
		return err
	}
	lost := slices.DeleteFunc(m.opened, func(p *model.Problem) bool {
		s := r.opts.Routing.Present(p.NodeID, p.Source)
		return known[p.ID] || s == nil || s.Problem == nil || s.Problem.ID != p.ID // it closed: its closing is late too
	})
	slices.SortFunc(lost, func(a, b *model.Problem) int { return cmp.Compare(a.ID, b.ID) })
	adopted := 0
	for some := range slices.Chunk(lost, r.opts.Batches.Size) {
		var b recordedBatch
		for _, p := range some {
			t := r.lostOpening(p)
			change := problemChange{Transition: t, problem: problemOf(r.opts.Names, t), late: true}
			if r.wasComplete(p.Opened) {
				r.metrics.missed.WithLabelValues("opened").Inc()
				r.opts.Logger.Error("the opening of a problem is missing in history; notifying it now", "problem", p.ID,
					"namespace", change.problem.Namespace, "node", change.problem.Node, "source", change.problem.SourceName, "opened", p.Opened)
			} else {
				change.unnotified = "history was created or restored after it opened, and does not know which handlers were notified"
				adopted++
				r.metrics.missed.WithLabelValues("adopted").Inc()
			}
			b.Opened, b.changes = append(b.Opened, change.problem), append(b.changes, change)
		}
		if err := r.write(ctx, b, 0); err != nil {
			return err
		}
	}
	if adopted > 0 {
		r.opts.Logger.Warn("history is new or restored and lacks open problems: recording them without notification", "problems", adopted, "attended", r.aliveUntil)
	}
	return nil
}

// lostOpening returns the lost opening of a problem, made from the state in the event view.
func (r *Reactor) lostOpening(p *model.Problem) *event.Transition {
	t := event.Transition{Node: p.NodeID, Source: p.Source}
	if s := r.opts.Routing.Present(p.NodeID, p.Source); s != nil {
		t = *s
	}
	t.Kind, t.Chunk, t.Received, t.Problem = event.ProblemOpened, p.Chunk, p.Opened.UnixNano(), cmp.Or(t.Problem, p)
	return &t
}

// closeMissed closes the problems whose closing was lost. If the view has no state of an existing event, the problem
// stays open, because nobody can tell whether it has ended.
func (r *Reactor) closeMissed(ctx context.Context, m *reconciliation) error {
	var b recordedBatch
	for id, of := range m.closed {
		s := r.opts.Routing.Present(of.node, of.source)
		_, _, node := r.opts.Names.NodeName(of.node)
		_, _, source := r.opts.Names.SourceName(of.source)
		if s != nil && s.Problem != nil && s.Problem.ID == id || s == nil && node && source {
			continue
		}
		if err := r.retry(ctx, "cannot read history", 0, func() error {
			p, err := r.opts.Store.Problem(ctx, id)
			if err == nil && p.Closed.IsZero() {
				b.changes = append(b.changes, r.lostClosing(p, s))
			} else if model.ClassOf(err) == model.NotFound {
				err = nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	slices.SortFunc(b.changes, func(a, b problemChange) int { return cmp.Compare(a.problem.ID, b.problem.ID) })
	for i := range b.changes {
		p := &b.changes[i].problem
		b.Closed = append(b.Closed, *p)
		r.metrics.missed.WithLabelValues("closed").Inc()
		r.opts.Logger.Error("the end of a problem is missing in history; notifying it now", "problem", p.ID,
			"namespace", p.Namespace, "node", p.Node, "source", p.SourceName, "closed", p.Closed)
	}
	if len(b.changes) == 0 {
		return nil
	}
	return r.write(ctx, b, 0)
}

// lostClosing returns the lost closing of a problem, made from the present state of its source. The time of the closing
// is known only if the source is OK.
func (r *Reactor) lostClosing(p history.Problem, state *event.Transition) problemChange {
	t := &event.Transition{Kind: event.ProblemClosed, Node: p.NodeID, Source: p.Source, Chunk: p.Chunk, Status: model.OK,
		Received: r.now().UnixNano()}
	if state == nil {
		t.Output, t.Executed = "the event no longer exists", t.Received
	} else if t.Namespace, t.Executed = state.Namespace, state.Executed; state.Status != model.OK {
		t.Output = "another problem is open"
	} else if t.Output = state.Output; state.Received > p.Opened.UnixNano() {
		t.Received = state.Received
	}
	t.Output += "\nlate: the server recovered its end at its start"
	p.Closed = time.Unix(0, t.Received).UTC()
	t.Problem = &p.Problem
	return problemChange{Transition: t, problem: p}
}

// latenessNote returns the sentence that explains why a first message is late.
func latenessNote(list []*escalation, ref history.HandlerRef) string {
	var first time.Time
	n := 0
	for _, e := range list {
		if e.Late && e.notifiedHandler(ref) == nil {
			if n++; first.IsZero() || e.Opened.Before(first) {
				first = e.Opened
			}
		}
	}
	switch {
	case n == 0:
		return ""
	case len(list) == 1:
		return fmt.Sprintf("\nlate: it opened at %s; the server recovered it at its start", first.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("\nlate: %d of them opened from %s on; the server recovered them at its start", n, first.UTC().Format(time.RFC3339))
}

const (
	// aliveInterval is the interval at which the server records up to when history is complete.
	aliveInterval = 20 * time.Second
	// aliveSlack is added to the recorded time, which can be an interval old. History need not know problems that opened
	// later.
	aliveSlack = 3 * aliveInterval
)

// recordAlive writes the time up to which history is complete. If the event view has a problem at the next start that
// opened later, history was restored from a copy made before the problem opened. While a reconciliation is due,
// recordAlive writes nothing: if this server stops now, the next one has to reconcile.
func (r *Reactor) recordAlive(ctx context.Context) {
	now := r.opts.Now()
	if r.reconciliation != nil || !r.aliveRecorded.IsZero() && now.Sub(r.aliveRecorded) < aliveInterval {
		return
	}
	r.aliveRecorded = now
	until := now
	if _, since, waits, _ := r.backlog.oldest(); waits {
		until = time.Unix(0, since)
	}
	if err := r.opts.Store.RecordAlive(ctx, until); err != nil && ctx.Err() == nil {
		r.opts.Logger.Debug("cannot record the time up to which history is complete", "err", err)
	}
}

// wasComplete reports whether history was complete when a problem opened, and so should know the problem.
func (r *Reactor) wasComplete(opened time.Time) bool {
	return !opened.After(r.aliveUntil.Add(aliveSlack))
}
