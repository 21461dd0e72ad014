package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// sqlStore is Store on SQLite and on PostgreSQL. Times are Unix nanoseconds; 0: none.
type sqlStore struct {
	db *sqldb.DB
	inserters
}

var schema = []string{`
	CREATE TABLE history_entries (
		partition_no BIGINT NOT NULL, log BIGINT NOT NULL, number BIGINT NOT NULL, idx BIGINT NOT NULL,
		at BIGINT NOT NULL, executed BIGINT NOT NULL, kind {text} NOT NULL,
		namespace {text} NOT NULL, node {text} NOT NULL, node_id BIGINT NOT NULL,
		check_name {text} NOT NULL, check_id BIGINT NOT NULL,
		status BIGINT NOT NULL, previous BIGINT NOT NULL, output {text} NOT NULL, count BIGINT NOT NULL, expired BIGINT NOT NULL);
	CREATE INDEX history_entries_event ON history_entries (namespace, node, check_name, at);
	CREATE INDEX history_entries_at ON history_entries (at);
	CREATE TABLE history_problems (
		id {text} PRIMARY KEY, namespace {text} NOT NULL, node {text} NOT NULL, node_id BIGINT NOT NULL,
		check_name {text} NOT NULL, check_id BIGINT NOT NULL, chunk BIGINT NOT NULL,
		status BIGINT NOT NULL, severity BIGINT NOT NULL, opened BIGINT NOT NULL, closed BIGINT NOT NULL, output {text} NOT NULL);
	CREATE INDEX history_problems_opened ON history_problems (opened, id);
	CREATE INDEX history_problems_open ON history_problems (opened, id) WHERE closed = 0;
	CREATE INDEX history_problems_closed ON history_problems (closed) WHERE closed > 0;
	CREATE INDEX history_problems_event ON history_problems (namespace, node, check_name, opened);
	CREATE TABLE history_outbox (
		id {serial}, key {text} NOT NULL UNIQUE, problem {text} NOT NULL,
		handler_ns {text} NOT NULL, handler {text} NOT NULL, kind {text} NOT NULL, payload {blob} NOT NULL,
		created BIGINT NOT NULL, state {text} NOT NULL, attempts BIGINT NOT NULL, next_at BIGINT NOT NULL,
		last_error {text} NOT NULL, ended BIGINT NOT NULL);
	CREATE INDEX history_outbox_problem ON history_outbox (problem, id);
	CREATE INDEX history_outbox_due ON history_outbox (state, next_at);
	CREATE INDEX history_outbox_ended ON history_outbox (ended);
	CREATE TABLE history_places (partition_no BIGINT PRIMARY KEY, log BIGINT NOT NULL, number BIGINT NOT NULL, idx BIGINT NOT NULL);
`, `
	CREATE INDEX history_entries_node ON history_entries (node_id, check_name, at);
	CREATE INDEX history_problems_node ON history_problems (node_id, opened);
`, `
	ALTER TABLE history_outbox ADD COLUMN replayed BIGINT NOT NULL DEFAULT 0;
	CREATE INDEX history_outbox_dead ON history_outbox (handler_ns, handler, id) WHERE state = 'dead';
`, escalationSchema}

// Open opens the history store at dsn (see sqldb.Open) and brings its schema up to date.
func Open(ctx context.Context, dsn string) (Store, error) {
	db, err := sqldb.Open(ctx, dsn, "history")
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &sqlStore{db: db}
	if err := s.prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *sqlStore) Close() error   { return s.db.Close() }
func (s *sqlStore) Trouble() error { return s.db.Trouble() }

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func (s *sqlStore) Record(ctx context.Context, b Batch) error {
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, selectPlaces)
		if err != nil {
			return err
		}
		recorded, err := scanPlaces(rows)
		if err != nil {
			return err
		}
		// An entry has no key of its own: how far its partition was recorded tells
		// whether a batch comes again.
		entries := make([]Entry, 0, len(b.Entries))
		for _, e := range b.Entries {
			if p, ok := recorded[e.Partition]; !ok || !p.Reached(e.Place.At, e.Place.Index) {
				entries = append(entries, e)
			}
		}
		if err := s.entries.Insert(ctx, tx, entries); err != nil {
			return err
		}
		if err := s.opened.Insert(ctx, tx, b.Opened); err != nil {
			return err
		}
		if err := s.closed.Insert(ctx, tx, b.Closed); err != nil {
			return err
		}
		if err := s.deliver.Insert(ctx, tx, b.Deliveries); err != nil {
			return err
		}
		if err := s.escalate(ctx, tx, &b); err != nil {
			return err
		}
		places := make([]reached, 0, len(b.Places))
		for _, p := range slices.Sorted(maps.Keys(b.Places)) {
			places = append(places, reached{p, b.Places[p]})
		}
		return s.places.Insert(ctx, tx, places)
	})
	if err != nil {
		return fmt.Errorf("record history: %w", err)
	}
	return nil
}

const selectPlaces = `SELECT partition_no, log, number, idx FROM history_places`

func (s *sqlStore) Places(ctx context.Context) (map[model.Partition]Place, error) {
	rows, err := s.db.Query(ctx, selectPlaces)
	if err == nil {
		var places map[model.Partition]Place
		if places, err = scanPlaces(rows); err == nil {
			return places, nil
		}
	}
	return nil, fmt.Errorf("read places: %w", err)
}

// rowsOf are those of a transaction or of a reader.
type rowsOf interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

func scanPlaces(rows rowsOf) (map[model.Partition]Place, error) {
	defer rows.Close()
	out := make(map[model.Partition]Place, model.Partitions)
	for rows.Next() {
		var p, log, number, index int64
		if err := rows.Scan(&p, &log, &number, &index); err != nil {
			return nil, err
		}
		out[model.Partition(p)] = Place{At: journal.Position{Log: uint64(log), Number: uint64(number)}, Index: uint32(index)}
	}
	return out, rows.Err()
}

const problemColumns = `id, namespace, node, node_id, check_name, check_id, chunk, status, severity, opened, closed, output`

func scanProblem(scan func(...any) error) (Problem, error) {
	var p Problem
	var opened, closed int64
	err := scan(&p.ID, &p.Namespace, &p.Node, &p.NodeID, &p.Check, &p.CheckID, &p.Chunk, &p.Status, &p.Severity, &opened, &closed, &p.Output)
	p.Opened, p.Closed = fromNanos(opened), fromNanos(closed)
	return p, err
}

func (s *sqlStore) Problem(ctx context.Context, id string) (Problem, error) {
	p, err := scanProblem(s.db.QueryRow(ctx, `SELECT `+problemColumns+` FROM history_problems WHERE id = ?`, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return p, model.Errorf(model.NotFound, "problem %s does not exist", id).WithHint("muster get problems")
	}
	if err != nil {
		return p, fmt.Errorf("read problem %s: %w", id, err)
	}
	return p, nil
}

func (s *sqlStore) Problems(ctx context.Context, q ProblemQuery) ([]Problem, error) {
	where, args := filter(q.Namespace, q.Node, q.Check, q.NodeID)
	if q.Open {
		where += ` AND closed = 0`
	}
	if !q.Before.IsZero() {
		where += ` AND (opened < ? OR (opened = ? AND id < ?))`
		args = append(args, nanos(q.Before), nanos(q.Before), q.BeforeID)
	}
	rows, err := s.db.Query(ctx, `SELECT `+problemColumns+` FROM history_problems WHERE `+where+` ORDER BY opened DESC, id DESC`+limit(q.Limit), args...)
	if err != nil {
		return nil, fmt.Errorf("list problems: %w", err)
	}
	defer rows.Close()
	var out []Problem
	for rows.Next() {
		p, err := scanProblem(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("list problems: %w", err)
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

func (s *sqlStore) Since(ctx context.Context, namespace string, t time.Time) (opened, closed int, err error) {
	where, args := filter(namespace, "", "", 0)
	for _, c := range []struct {
		column string
		into   *int
	}{{"opened", &opened}, {"closed", &closed}} {
		row := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM history_problems WHERE `+where+` AND `+c.column+` >= ?`, append(slices.Clone(args), nanos(t))...)
		if err := row.Scan(c.into); err != nil {
			return 0, 0, fmt.Errorf("count problems: %w", err)
		}
	}
	return opened, closed, nil
}

func filter(namespace, node, check string, id model.NodeID) (string, []any) {
	where, args := `1 = 1`, []any{}
	for _, f := range []struct{ column, value string }{{"namespace", namespace}, {"node", node}, {"check_name", check}} {
		if f.value != "" {
			where += ` AND ` + f.column + ` = ?`
			args = append(args, f.value)
		}
	}
	if id != 0 {
		where += ` AND node_id = ?`
		args = append(args, int64(id))
	}
	return where, args
}

func limit(n int) string {
	if n <= 0 {
		n = 1000
	}
	return fmt.Sprintf(` LIMIT %d`, n)
}

func (s *sqlStore) Entries(ctx context.Context, q EntryQuery) ([]Entry, error) {
	where, args := filter(q.Namespace, q.Node, q.Check, q.NodeID)
	if !q.Since.IsZero() {
		where += ` AND at >= ?`
		args = append(args, nanos(q.Since))
	}
	rows, err := s.db.Query(ctx, `SELECT partition_no, log, number, idx, at, executed, kind, namespace, node, node_id, check_name, check_id,
			status, previous, output, count, expired
		FROM history_entries WHERE `+where+` ORDER BY at DESC, number DESC, idx DESC`+limit(q.Limit), args...)
	if err != nil {
		return nil, fmt.Errorf("list history: %w", err)
	}
	defer rows.Close()
	var out []Entry
	for rows.Next() {
		var e Entry
		var partition, log, number, index, at, executed, previous, count, expired int64
		if err := rows.Scan(&partition, &log, &number, &index, &at, &executed, &e.Kind, &e.Namespace, &e.Node, &e.NodeID, &e.Check, &e.CheckID,
			&e.Status, &previous, &e.Output, &count, &expired); err != nil {
			return nil, fmt.Errorf("list history: %w", err)
		}
		e.Partition, e.Count, e.Expired = model.Partition(partition), uint64(count), expired != 0
		if e.First = previous == noStatus; !e.First {
			e.Previous = model.Status(previous)
		}
		e.Place = Place{At: journal.Position{Log: uint64(log), Number: uint64(number)}, Index: uint32(index)}
		e.At, e.Executed = fromNanos(at), fromNanos(executed)
		out = append(out, e)
	}
	return out, rows.Err()
}

const overOutbox = `FROM history_outbox o WHERE ended > 0 AND ended < ?
	AND NOT EXISTS (SELECT 1 FROM history_problems p WHERE p.id = o.problem AND p.closed = 0) ORDER BY id LIMIT ?`

func (s *sqlStore) Clean(ctx context.Context, before time.Time, n int) (int, error) {
	removed := 0
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		removed = 0
		for _, query := range []string{
			`DELETE FROM history_entries WHERE {row} IN (SELECT {row} FROM history_entries WHERE at < ? ORDER BY at LIMIT ?)`,
			// An open problem's deliveries say who is to hear of its end.
			`DELETE FROM history_told WHERE key IN (SELECT key ` + overOutbox + `)`,
			`DELETE FROM history_outbox WHERE id IN (SELECT id ` + overOutbox + `)`,
			`DELETE FROM history_problems WHERE id IN (SELECT id FROM history_problems WHERE closed > 0 AND closed < ? LIMIT ?)`,
		} {
			result, err := tx.Exec(ctx, strings.ReplaceAll(query, "{row}", tx.RowID()), nanos(before), n)
			if err != nil {
				return err
			}
			count, _ := result.RowsAffected()
			removed += int(count)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("clean history: %w", err)
	}
	return removed, nil
}
