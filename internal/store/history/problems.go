package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const problemColumns = `id, namespace, node, node_id, source_kind, source_id, source_instance, source_name, chunk, status, severity, opened, closed, output`

func scanProblem(scan func(...any) error) (Problem, error) {
	var p Problem
	var opened, closed int64
	err := scan(&p.ID, &p.Namespace, &p.Node, &p.NodeID, &p.Source.Kind, &p.Source.ID, &p.Source.Instance, &p.SourceName, &p.Chunk, &p.Status, &p.Severity, &opened, &closed, &p.Output)
	p.Opened, p.Closed = fromNanos(opened), fromNanos(closed)
	return p, err
}

func (s *sqlStore) Problem(ctx context.Context, id string) (Problem, error) {
	p, err := scanProblem(s.db.QueryRow(ctx, `SELECT `+problemColumns+` FROM history_problems WHERE id = ?`, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return p, ErrNoProblem(id)
	}
	if err != nil {
		return p, fmt.Errorf("read problem %s: %w", id, err)
	}
	return p, nil
}

// ErrNoProblem is the answer about an id that no problem has.
func ErrNoProblem(id string) error {
	return model.Errorf(model.NotFound, "problem %s does not exist", id).WithHint("muster get problems")
}

func (s *sqlStore) KnownProblems(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	for some := range slices.Chunk(ids, 500) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		rows, err := s.db.Query(ctx, `SELECT id FROM history_problems WHERE id IN (?`+strings.Repeat(", ?", len(some)-1)+`)`, args...)
		if err != nil {
			return nil, fmt.Errorf("look for problems: %w", err)
		}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				rows.Close()
				return nil, fmt.Errorf("look for problems: %w", err)
			}
			known[id] = true
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return nil, fmt.Errorf("look for problems: %w", err)
		}
	}
	return known, nil
}

// problemShelf: problems are written when they open.
func problemShelf(size int64) shelf[Problem] {
	return shelf[Problem]{
		table: "history_problems", id: "no", at: "opened", columns: problemColumns, size: size, scan: scanProblem,
		time:    func(p *Problem) int64 { return nanos(p.Opened) },
		compare: func(a, b *Problem) int { return cmp.Or(b.Opened.Compare(a.Opened), cmp.Compare(b.ID, a.ID)) },
	}
}

func (s *sqlStore) Problems(ctx context.Context, q ProblemQuery) ([]Problem, error) {
	w := newWhere(q.Namespace, q.Node, q.Check, q.NodeID).of(q.Namespaces)
	if q.Open {
		w.and(`{+}e.closed = 0`)
	}
	if !q.Since.IsZero() {
		w.since = nanos(q.Since)
		w.and(`{+}e.opened >= ?`, w.since)
	}
	if !q.Before.IsZero() {
		w.until = nanos(q.Before)
		w.and(`{+}e.opened <= ? AND ({+}e.opened < ? OR e.id < ?)`, w.until, w.until, q.BeforeID)
	}
	out, err := s.problems.list(ctx, s.db, w, most(q.Limit))
	if err != nil {
		return nil, fmt.Errorf("list problems: %w", err)
	}
	return out, nil
}

// recordProblems writes those that opened and those that closed.
func (s *sqlStore) recordProblems(ctx context.Context, tx *sqldb.Tx, opened, closed []Problem) error {
	if len(opened)+len(closed) == 0 {
		return nil
	}
	filed, next, err := s.problems.end(ctx, tx)
	if err != nil {
		return err
	}
	if err := s.opened.Insert(ctx, tx, number(next, opened)); err != nil {
		return err
	}
	if err := s.closed.Insert(ctx, tx, number(next+int64(len(opened)), closed)); err != nil {
		return err
	}
	if next-1+int64(len(opened)+len(closed))-filed < s.problems.size {
		return nil
	}
	_, err = s.problems.file(ctx, tx)
	return err
}

func (s *sqlStore) Since(ctx context.Context, namespace string, t time.Time) (opened, closed int, err error) {
	w := newWhere(namespace, "", "", 0)
	for _, c := range []struct {
		term string
		into *int
	}{{"e.opened >= ?", &opened}, {"e.closed > 0 AND e.closed >= ?", &closed}} {
		row := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM history_problems e WHERE `+w.sql("")+` AND `+c.term, append(slices.Clone(w.args), nanos(t))...)
		if err := row.Scan(c.into); err != nil {
			return 0, 0, fmt.Errorf("count problems: %w", err)
		}
	}
	return opened, closed, nil
}
