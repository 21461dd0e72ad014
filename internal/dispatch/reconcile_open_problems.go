package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// reconciliation lists the problems that, at a server's start, are open only in memory or only in history. Each
// is open in only one of both. Some of their transitions were only late, and are recorded soon; the rest were
// lost.
type reconciliation struct {
	at     journal.Position        // last position whose transitions the replay emits
	opened []*model.Problem        // problems that are open in the view and not in history
	closed map[string]sourceOnNode // problems that are open in history and not in the view
}

// CompareOpenProblems finds the problems that are open in memory but not in the history database, or the reverse. It stores the
// differences, which Run corrects. The view has applied all commits up to a position; each calls fn with each of its
// open problems. Call Compare after Load and before Run, before new transitions are emitted.
func (r *Dispatcher) CompareOpenProblems(at journal.Position, each func(fn func(*model.Problem))) {
	m := &reconciliation{at: at, closed: maps.Clone(r.router.open)}
	each(func(p *model.Problem) {
		if _, known := m.closed[p.ID]; known {
			delete(m.closed, p.ID)
		} else {
			m.opened = append(m.opened, p)
		}
	})
	r.reconciliation = m
}

// reconcile adds to history the openings and closings of problems that history has lost. It waits until all late
// transitions are recorded.
func (r *Dispatcher) reconcile(ctx context.Context) error {
	m := r.reconciliation
	if m == nil {
		return nil
	}
	if oldest, _, waits, _ := r.backlog.oldestUnrecorded(); waits && oldest.Number <= m.at.Number {
		return nil
	}
	r.reconciliation = nil
	if err := r.recordMissingOpenings(ctx, m); err != nil {
		return err
	}
	return r.recordMissingClosings(ctx, m)
}

// recordMissingOpenings adds to history the lost openings of problems that are open in memory. Problems that opened
// while an older or new history did not know which handlers were notified are only recorded.
func (r *Dispatcher) recordMissingOpenings(ctx context.Context, m *reconciliation) error {
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
			t := r.missingOpening(p)
			change := problemChange{Transition: t, problem: problemOf(r.opts.Names, t), late: true}
			if !r.router.mayHaveBeenSent(p.Opened) {
				r.metrics.missed.WithLabelValues("opened").Inc()
				r.opts.Logger.Error("the opening of a problem is missing in history; the server sends its notification now", "problem", p.ID,
					"namespace", change.problem.Namespace, "node", change.problem.Node, "source", change.problem.SourceName, "opened", p.Opened)
			} else {
				change.unnotified = history.ReasonUnknown
				adopted++
				r.metrics.missed.WithLabelValues("adopted").Inc()
			}
			b.Opened, b.changes = append(b.Opened, change.problem), append(b.changes, change)
		}
		if err := r.routeAndRecord(ctx, b, 0); err != nil {
			return err
		}
	}
	if adopted > 0 {
		r.opts.Logger.Warn("history is new or restored and lacks open problems; the server records them without notifications", "problems", adopted, "until", r.router.unknownUntil)
	}
	return nil
}

// missingOpening creates, from the event in memory, the opening of a problem that history does not know.
func (r *Dispatcher) missingOpening(p *model.Problem) *event.Transition {
	t := event.Transition{Node: p.NodeID, Source: p.Source}
	if s := r.opts.Routing.Present(p.NodeID, p.Source); s != nil {
		t = *s
	}
	t.Kind, t.Definition, t.Received, t.Problem = event.ProblemOpened, p.Definition, p.Opened.UnixNano(), cmp.Or(t.Problem, p)
	return &t
}

// recordMissingClosings adds to history the lost closings of problems that are no longer open in memory. If the view
// has no state of an existing event, the problem stays open, because nobody can tell whether it has ended.
func (r *Dispatcher) recordMissingClosings(ctx context.Context, m *reconciliation) error {
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
				b.changes = append(b.changes, r.missingClosing(p, s))
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
		r.opts.Logger.Error("the end of a problem is missing in history; the server sends its notification now", "problem", p.ID,
			"namespace", p.Namespace, "node", p.Node, "source", p.SourceName, "closed", p.Closed)
	}
	if len(b.changes) == 0 {
		return nil
	}
	return r.routeAndRecord(ctx, b, 0)
}

// missingClosing creates the lost closing of a problem that history still shows as open. The state is the present one
// of the check or trigger; it is nil if the event is gone. The time of the closing is known only if the state is OK.
func (r *Dispatcher) missingClosing(p history.Problem, state *event.Transition) problemChange {
	t := &event.Transition{Kind: event.ProblemClosed, Node: p.NodeID, Source: p.Source, Definition: p.Definition, Status: model.OK,
		Received: r.now().UnixNano()}
	if state == nil {
		t.Output, t.Executed = "the event no longer exists", t.Received
	} else if t.Namespace, t.Executed = state.Namespace, state.Executed; state.Status != model.OK {
		t.Output = "another problem is open"
	} else if t.Output = state.Output; state.Received > p.Opened.UnixNano() {
		t.Received = state.Received
	}
	t.Output += "\nlate notification: the server found the end of the problem only at its start"
	p.Closed = time.Unix(0, t.Received).UTC()
	t.Problem = &p.Problem
	return problemChange{Transition: t, problem: p}
}

// latenessNote returns the sentence that tells people why a handler's first message about some problems is
// late.
func latenessNote(list []*escalation, ref history.HandlerRef) (note string) {
	var first, opened time.Time
	late, earlier := 0, 0
	for _, e := range list {
		if e.notifiedHandler(ref) != nil {
			continue
		}
		if e.Late {
			if late++; first.IsZero() || e.Opened.Before(first) {
				first = e.Opened
			}
		}
		if e.present != nil && e.present.Problem.Opened.Before(e.Opened) {
			if earlier++; opened.IsZero() || e.present.Problem.Opened.Before(opened) {
				opened = e.present.Problem.Opened
			}
		}
	}
	switch {
	case late == 1 && len(list) == 1:
		note = fmt.Sprintf("\nlate notification: the problem opened at %s, but the server found it only at its start", first.UTC().Format(time.RFC3339))
	case late > 0:
		note = fmt.Sprintf("\nlate notification: %d of these problems opened at %s or later, but the server found them only at its start", late, first.UTC().Format(time.RFC3339))
	}
	switch {
	case earlier == 1 && len(list) == 1:
		note += fmt.Sprintf("\nthe problem opened at %s, before this route applied", opened.UTC().Format(time.RFC3339))
	case earlier > 0:
		note += fmt.Sprintf("\n%d of these problems opened before this route applied, the oldest at %s", earlier, opened.UTC().Format(time.RFC3339))
	}
	return note
}
