package history

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const problemColumns = `id, namespace, node, node_id, source_kind, source_id, source_instance, source_name, definition, status, severity, opened, closed, texts, output`

// scanProblem reads the columns of a problem.
func scanProblem(scan sqldb.Scan) (Problem, error) {
	var p Problem
	var opened, closed int64
	var texts string
	err := scan(&p.ID, &p.Namespace, &p.Node, &p.NodeID, &p.Source.Kind, &p.Source.ID, &p.Source.Instance, &p.SourceName, &p.Definition, &p.Status, &p.Severity, &opened, &closed, &texts, &p.Output)
	p.Opened, p.Closed = sqldb.FromNanos(opened), sqldb.FromNanos(closed)
	var of problemTexts
	if texts != "" && json.Unmarshal([]byte(texts), &of) == nil {
		p.Labels, p.Description = of.Labels, of.Description
	}
	return p, err
}

// problemTexts is the JSON in the column texts of a problem. A problem without these texts has an empty column.
type problemTexts struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"description,omitempty"`
}

// textsColumn returns the value of the column texts of a problem.
func textsColumn(p *Problem) string {
	if len(p.Labels) == 0 && p.Description == "" {
		return ""
	}
	text, _ := json.Marshal(problemTexts{p.Labels, p.Description}) // texts alone do not fail
	return cleanText(string(text))
}

// Problem returns the problem with an id.
func (s *sqlStore) Problem(ctx context.Context, id string) (Problem, error) {
	p, err := sqldb.List(ctx, s.db, "problem "+id, scanProblem, `SELECT `+problemColumns+` FROM history_problems WHERE id = ?`, id)
	if err != nil {
		return Problem{}, err
	}
	if len(p) == 0 {
		return Problem{}, ErrNoProblem(id)
	}
	return p[0], nil
}

// ErrNoProblem returns the error for an unknown problem id.
func ErrNoProblem(id string) error {
	return model.Errorf(model.NotFound, "problem %s does not exist", id).WithHint("list problems: muster get problems")
}

// idsPerQuery limits the ids in one SQL statement.
const idsPerQuery = 500

// KnownProblems returns which of the given problem ids history contains.
func (s *sqlStore) KnownProblems(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	for some := range slices.Chunk(ids, idsPerQuery) {
		w := &sqldb.Where{}
		sqldb.AndIn(w, `id`, some)
		found, err := sqldb.List(ctx, s.db, "problems", sqldb.ScanColumn[string], `SELECT id FROM history_problems WHERE `+w.SQL(""), w.Args...)
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			known[id] = true
		}
	}
	return known, nil
}

// newProblemTable returns the table of problems in segments, whose rows are numbered in the order of opening.
// The table is divided into segments of size rows.
func newProblemTable(size int64) segmentedTable[Problem] {
	return segmentedTable[Problem]{
		segments: segments{table: "history_problems", id: "no", at: "opened", columns: problemColumns, size: size, holdings: holdings{
			bytes: rowBytes(problemBytes, "texts", "output"), removable: `e.closed > 0`, kept: `SELECT e.node_id, e.namespace, {bytes} AS bytes FROM history_problems e WHERE e.closed = 0`,
		}},
		scan:    scanProblem,
		time:    func(p *Problem) int64 { return sqldb.Nanos(p.Opened) },
		compare: func(a, b *Problem) int { return cmp.Or(b.Opened.Compare(a.Opened), cmp.Compare(b.ID, a.ID)) },
	}
}

// Problems returns the selected problems, newest first.
func (s *sqlStore) Problems(ctx context.Context, q ProblemQuery) ([]Problem, error) {
	w := newSelection(q.Namespace, q.Namespaces, q.Node, q.Check, q.NodeID)
	if q.Open {
		w.And(`{+}e.closed = 0`)
	}
	w.boundToTime(`{+}e.opened`, q.Since, q.Before, q.BeforeID)
	return s.problems.list(ctx, s.db, w, effectiveLimit(q.Limit))
}

// recordProblems inserts the newly opened problems of a batch, and updates the closed problems.
func (s *sqlStore) recordProblems(ctx context.Context, tx *sqldb.Tx, opened, closed []Problem) error {
	if len(opened)+len(closed) == 0 {
		return nil
	}
	filed, next, err := s.problems.lastNumbers(ctx, tx)
	if err != nil {
		return err
	}
	if err := s.opened.Insert(ctx, tx, numberRows(next, opened)); err != nil {
		return err
	}
	if err := s.closed.Insert(ctx, tx, numberRows(next+int64(len(opened)), closed)); err != nil {
		return err
	}
	if next-1+int64(len(opened)+len(closed))-filed < s.problems.size {
		return nil
	}
	return s.problems.closeSegment(ctx, tx)
}

// CountProblems counts the problems opened and closed since a time.
func (s *sqlStore) CountProblems(ctx context.Context, namespace string, since time.Time) (opened, closed int, err error) {
	w := newSelection(namespace, nil, "", "", 0)
	count := func(term string) (n int) {
		if err == nil {
			n, err = sqldb.QueryValue[int](ctx, s.db, "the number of problems", `SELECT COUNT(*) FROM history_problems e WHERE `+w.SQL("")+` AND `+term, append(slices.Clone(w.Args), sqldb.Nanos(since))...)
		}
		return n
	}
	opened, closed = count(`e.opened >= ?`), count(`e.closed > 0 AND e.closed >= ?`)
	return opened, closed, err
}

// Oldest returns the time of the oldest row in history.
func (s *sqlStore) Oldest(ctx context.Context) (time.Time, error) {
	at, err := sqldb.QueryValue[int64](ctx, s.db, "the oldest change",
		`SELECT COALESCE(MIN(oldest), 0) FROM (SELECT MIN(at) AS oldest FROM history_entries UNION ALL SELECT MIN(opened) FROM history_problems) AS both_tables`)
	return sqldb.FromNanos(at), err
}

const entryColumns = `partition_no, log, number, idx, at, executed, kind, namespace, node, node_id, source_kind, source_id, source_instance, source_name, status, previous, since, output, count, expired`

// newEntryTable returns the table of changes of events, divided into segments of `size` rows.
func newEntryTable(size int64) segmentedTable[Entry] {
	return segmentedTable[Entry]{
		segments: segments{table: "history_entries", id: "id", at: "at", columns: `id, ` + entryColumns, size: size, holdings: holdings{
			bytes: rowBytes(entryBytes, "output"), removable: `1 = 1`,
		}},
		scan:    scanEntry,
		time:    func(e *Entry) int64 { return sqldb.Nanos(e.At) },
		compare: func(a, b *Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) },
	}
}

// scanEntry reads the columns of a history entry.
func scanEntry(scan sqldb.Scan) (Entry, error) {
	var e Entry
	var log, number, at, executed, previous, since, count int64
	err := scan(&e.ID, &e.Partition, &log, &number, &e.Place.Index, &at, &executed, &e.Kind, &e.Namespace, &e.Node, &e.NodeID, &e.Source.Kind, &e.Source.ID, &e.Source.Instance, &e.SourceName,
		&e.Status, &previous, &since, &e.Output, &count, &e.Expired)
	if e.First = previous == noStatus; !e.First {
		e.Previous = model.Status(previous)
	}
	e.Place.At, e.Count = journal.Position{Log: uint64(log), Number: uint64(number)}, uint64(count)
	e.At, e.Executed, e.Since = sqldb.FromNanos(at), sqldb.FromNanos(executed), sqldb.FromNanos(since)
	return e, err
}

// Entries returns the selected history entries (event changes), newest first.
func (s *sqlStore) Entries(ctx context.Context, q EntryQuery) ([]Entry, error) {
	w := newSelection(q.Namespace, q.Namespaces, q.Node, q.Check, q.NodeID)
	w.AndEqual(`e.kind`, string(q.Kind))
	w.boundToTime(`{+}e.at`, q.Since, q.Before, q.BeforeID)
	return s.entries.list(ctx, s.db, w, effectiveLimit(q.Limit))
}

// markKinds is the condition of the index history_entries_marks; SQLite uses the index only if a query has the same text.
const markKinds = `e.kind IN ('flapping', 'acknowledged')`

// FlappingAndAcknowledgements returns the history entries about acknowledgements and starts of flapping, newest
// first.
func (s *sqlStore) FlappingAndAcknowledgements(ctx context.Context, q EntryQuery) ([]Entry, error) {
	w := newSelection(q.Namespace, q.Namespaces, "", "", 0)
	w.And(markKinds)
	w.boundToTime(`e.at`, q.Since, q.Before, q.BeforeID)
	return s.entries.list(ctx, s.db, w, effectiveLimit(q.Limit))
}

// recordEntries inserts the history entries of a batch that history does not contain yet. An entry has no key, so the
// function compares it with the recorded place of its partition.
func (s *sqlStore) recordEntries(ctx context.Context, tx *sqldb.Tx, list []Entry) error {
	if len(list) == 0 {
		return nil
	}
	if s.recorded == nil {
		rows, err := tx.Query(ctx, selectPlaces+`history_places`)
		places, err := sqldb.Collect(rows, err, scanPosition)
		if err != nil {
			return err
		}
		s.recorded = positionMap(places)
	}
	filed, next, err := s.entries.lastNumbers(ctx, tx)
	if err != nil {
		return err
	}
	rows := make([]numberedRow[Entry], 0, len(list))
	for i := range list {
		e := &list[i]
		if p, ok := s.recorded[e.Partition]; !ok || !p.Includes(e.Place.At, e.Place.Index) {
			rows = append(rows, numberedRow[Entry]{next, e})
			next++
		}
	}
	if err := s.entry.Insert(ctx, tx, rows); err != nil {
		return err
	}
	if next-1-filed < s.entries.size {
		return nil
	}
	return s.entries.closeSegment(ctx, tx)
}
