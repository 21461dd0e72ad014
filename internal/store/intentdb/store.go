// Package intentdb is intent.Store on SQLite and on PostgreSQL: one set of
// statements, one conformance suite (internal/intent/intenttest). Rows, the record
// of changes, the last id of each kind, and the one row whose lock orders writers.
package intentdb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// sqlStore is intent.Store on SQLite and on PostgreSQL. Names compare byte by byte in both.
type sqlStore struct {
	db  *sqldb.DB
	now func() time.Time
}

// schema has one step for each version of the tables.
var schema = []string{`
	CREATE TABLE intent_rows (
		kind {text} NOT NULL, namespace {text} NOT NULL, name {text} NOT NULL,
		id BIGINT NOT NULL, revision BIGINT NOT NULL,
		created BIGINT NOT NULL, updated BIGINT NOT NULL, body {blob} NOT NULL,
		PRIMARY KEY (kind, namespace, name));
	CREATE TABLE intent_changes (
		revision BIGINT NOT NULL, part BIGINT NOT NULL, at BIGINT NOT NULL,
		who {text} NOT NULL, whence {text} NOT NULL, why {text} NOT NULL, owner {text} NOT NULL,
		kind {text} NOT NULL, namespace {text} NOT NULL, name {text} NOT NULL,
		id BIGINT NOT NULL, op {text} NOT NULL, before_body {blob}, after_body {blob}, was {text} NOT NULL,
		PRIMARY KEY (revision, part));
	CREATE INDEX intent_changes_key ON intent_changes (kind, namespace, name, revision);
	CREATE INDEX intent_changes_was ON intent_changes (kind, namespace, was) WHERE was <> '';
	CREATE TABLE intent_ids (kind {text} PRIMARY KEY, last BIGINT NOT NULL);
	CREATE TABLE intent_revision (one BIGINT PRIMARY KEY, revision BIGINT NOT NULL);
	INSERT INTO intent_revision (one, revision) VALUES (1, 0);
	CREATE TABLE intent_life (one BIGINT PRIMARY KEY, incarnation {text} NOT NULL, skipped BIGINT NOT NULL);
	INSERT INTO intent_life (one, incarnation, skipped) VALUES (1, '', 0);
`}

// Open opens the intent store at dsn (see sqldb.Open) and makes its schema. now is for the times of changes.
func Open(ctx context.Context, dsn string, now func() time.Time) (intent.Store, error) {
	db, err := sqldb.Open(ctx, dsn, "intent")
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqlStore{db: db, now: now}, nil
}

func (s *sqlStore) Close() error   { return s.db.Close() }
func (s *sqlStore) Trouble() error { return s.db.Trouble() }

// firstID returns the first id of a kind: smaller ones are reserved for built-in things.
func firstID(kind string) uint32 {
	switch kind {
	case "Check":
		return uint32(model.FirstCheck)
	case "Node", "Namespace":
		return 1000
	}
	return 1
}

// fixedID gives the namespaces of the first start their numbers.
func fixedID(key intent.Key) uint32 {
	if key.Kind == "Namespace" {
		switch key.Name {
		case model.DefaultNamespaceName:
			return uint32(model.DefaultNamespace)
		case model.SharedNamespaceName:
			return uint32(model.SharedNamespace)
		}
	}
	return 0
}

// isResource: kinds with a capital are resources, whose bodies are recorded with
// every change; the others are ours and may hold secrets.
func isResource(kind string) bool { return kind != "" && kind[0] >= 'A' && kind[0] <= 'Z' }

// Commit takes the revision first: its row is the lock that orders writers.
func (s *sqlStore) Commit(ctx context.Context, by intent.Actor, writes []intent.Write) (intent.CommitResult, error) {
	var out intent.CommitResult
	at := s.now().UTC()
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		out = intent.CommitResult{Rows: make([]intent.Row, 0, len(writes))}
		err := tx.QueryRow(ctx, `UPDATE intent_revision SET revision = revision + 1 WHERE one = 1 RETURNING revision`).Scan(&out.Revision)
		if err != nil {
			return fmt.Errorf("reserve a revision: %w", err)
		}
		w, err := newWriter(ctx, tx, out.Revision, at, by)
		if err != nil {
			return err
		}
		defer w.close()
		for i, write := range writes {
			row, err := w.write(ctx, i, write)
			if err != nil {
				return err
			}
			out.Rows = append(out.Rows, row)
		}
		return w.keepIDs(ctx)
	})
	if err != nil {
		return intent.CommitResult{}, err
	}
	return out, nil
}

// writer holds the statements of one commit: a bulk load writes tens of thousands of rows.
type writer struct {
	tx                       *sqldb.Tx
	revision                 int64
	at                       time.Time
	by                       intent.Actor
	get, put, remove, change *sql.Stmt
	ids                      map[string]uint32 // last given, per kind
}

func newWriter(ctx context.Context, tx *sqldb.Tx, revision int64, at time.Time, by intent.Actor) (*writer, error) {
	w := &writer{tx: tx, revision: revision, at: at, by: by, ids: map[string]uint32{}}
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&w.get, `SELECT id, revision, created, body FROM intent_rows WHERE kind = ? AND namespace = ? AND name = ?`},
		{&w.put, `INSERT INTO intent_rows (kind, namespace, name, id, revision, created, updated, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (kind, namespace, name) DO UPDATE SET revision = excluded.revision, updated = excluded.updated, body = excluded.body`},
		{&w.remove, `DELETE FROM intent_rows WHERE kind = ? AND namespace = ? AND name = ?`},
		{&w.change, `INSERT INTO intent_changes (revision, part, at, who, whence, why, owner, kind, namespace, name, id, op, was, before_body, after_body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
	} {
		stmt, err := tx.Prepare(ctx, p.text)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("prepare: %w", err)
		}
		*p.to = stmt
	}
	return w, nil
}

func (w *writer) close() {
	for _, stmt := range []*sql.Stmt{w.get, w.put, w.remove, w.change} {
		if stmt != nil {
			stmt.Close()
		}
	}
}

func (w *writer) write(ctx context.Context, part int, write intent.Write) (intent.Row, error) {
	key, source := write.Key, write.Source()
	row := intent.Row{Key: key, Revision: w.revision, Created: w.at, Updated: w.at, Body: write.Body}
	var created int64
	var revision int64
	var before []byte
	err := w.get.QueryRowContext(ctx, source.Kind, source.Namespace, source.Name).Scan(&row.ID, &revision, &created, &before)
	exists := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return intent.Row{}, fmt.Errorf("read %s: %w", source, err)
	}
	if err := write.Check(exists, revision); err != nil {
		return intent.Row{}, err
	}
	op := "create"
	switch {
	case (write.Body == nil || write.From != "") && !exists:
		return intent.Row{}, model.Errorf(model.NotFound, "%s does not exist", source)
	case write.From != "":
		op = "rename"
		row.Created = time.Unix(0, created).UTC()
		if err = w.free(ctx, key); err != nil {
			return intent.Row{}, err
		}
		_, err = w.remove.ExecContext(ctx, source.Kind, source.Namespace, source.Name)
	case write.Body == nil:
		op = "delete"
		if write.Retire {
			op = "retire"
		}
		row.Created = time.Unix(0, created).UTC()
		_, err = w.remove.ExecContext(ctx, key.Kind, key.Namespace, key.Name)
	case exists:
		op = "update"
		row.Created = time.Unix(0, created).UTC()
	default:
		row.ID, err = w.nextID(ctx, key)
	}
	if err == nil && write.Body != nil {
		_, err = w.put.ExecContext(ctx, key.Kind, key.Namespace, key.Name, int64(row.ID), row.Revision,
			row.Created.UnixNano(), row.Updated.UnixNano(), write.Body)
	}
	if err != nil {
		return intent.Row{}, fmt.Errorf("%s %s: %w", op, key, err)
	}
	var after []byte
	if isResource(key.Kind) {
		after = write.Body
	} else {
		before = nil
	}
	by := cmp.Or(write.By, &w.by)
	_, err = w.change.ExecContext(ctx, w.revision, part, w.at.UnixNano(), by.User, by.Whence, by.Why, by.Owner,
		key.Kind, key.Namespace, key.Name, int64(row.ID), op, write.From, before, after)
	if err != nil {
		return intent.Row{}, fmt.Errorf("record %s of %s: %w", op, key, err)
	}
	return row, nil
}

// free says that there is no row at a key to which one moves.
func (w *writer) free(ctx context.Context, key intent.Key) error {
	var id, revision, created int64
	var body []byte
	err := w.get.QueryRowContext(ctx, key.Kind, key.Namespace, key.Name).Scan(&id, &revision, &created, &body)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", key, err)
	}
	return intent.Write{Key: key}.Check(true, revision)
}

func (w *writer) nextID(ctx context.Context, key intent.Key) (uint32, error) {
	if id := fixedID(key); id != 0 {
		return id, nil
	}
	last, known := w.ids[key.Kind]
	if !known {
		err := w.tx.QueryRow(ctx, `SELECT COALESCE((SELECT last FROM intent_ids WHERE kind = ?),
			(SELECT skipped FROM intent_life WHERE one = 1) + ?)`, key.Kind, int64(firstID(key.Kind)-1)).Scan(&last)
		if err != nil {
			return 0, fmt.Errorf("read the last id: %w", err)
		}
	}
	if last == ^uint32(0) {
		return 0, model.Errorf(model.Limited, "all numbers for kind %s are used up", key.Kind)
	}
	w.ids[key.Kind] = last + 1
	return last + 1, nil
}

func (w *writer) keepIDs(ctx context.Context) error {
	for kind, last := range w.ids {
		_, err := w.tx.Exec(ctx, `INSERT INTO intent_ids (kind, last) VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET last = excluded.last`, kind, int64(last))
		if err != nil {
			return fmt.Errorf("store the last id of %s: %w", kind, err)
		}
	}
	return nil
}

func (s *sqlStore) Get(ctx context.Context, key intent.Key) (intent.Row, error) {
	row := intent.Row{Key: key}
	var created, updated int64
	err := s.db.QueryRow(ctx, `SELECT id, revision, created, updated, body FROM intent_rows WHERE kind = ? AND namespace = ? AND name = ?`,
		key.Kind, key.Namespace, key.Name).Scan(&row.ID, &row.Revision, &created, &updated, &row.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return intent.Row{}, model.Errorf(model.NotFound, "%s does not exist", key)
	}
	if err != nil {
		return intent.Row{}, fmt.Errorf("read %s: %w", key, err)
	}
	row.Created, row.Updated = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
	return row, nil
}

// keysAtOnce bounds the keys of one query: a database takes some ten thousand parameters.
const keysAtOnce = 2000

func (s *sqlStore) GetAll(ctx context.Context, keys []intent.Key) ([]intent.Row, error) {
	var out []intent.Row
	for chunk := range slices.Chunk(keys, keysAtOnce) {
		args := make([]any, 0, 3*len(chunk))
		for _, key := range chunk {
			args = append(args, key.Kind, key.Namespace, key.Name)
		}
		rows, err := s.db.Query(ctx, `SELECT kind, namespace, name, id, revision, created, updated, body FROM intent_rows
			WHERE (kind, namespace, name) IN (VALUES (?, ?, ?)`+strings.Repeat(", (?, ?, ?)", len(chunk)-1)+`)`, args...)
		if err != nil {
			return nil, fmt.Errorf("read %d resources: %w", len(chunk), err)
		}
		if out, err = scanRows(rows, out); err != nil {
			return nil, fmt.Errorf("read %d resources: %w", len(chunk), err)
		}
	}
	return out, nil
}

// scanRows appends all rows of a query to out, and closes it.
func scanRows(rows *sqldb.Rows, out []intent.Row) ([]intent.Row, error) {
	defer rows.Close()
	for rows.Next() {
		var row intent.Row
		var created, updated int64
		if err := rows.Scan(&row.Kind, &row.Namespace, &row.Name, &row.ID, &row.Revision, &created, &updated, &row.Body); err != nil {
			return nil, err
		}
		row.Created, row.Updated = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
		out = append(out, row)
	}
	return out, rows.Err()
}

func (s *sqlStore) List(ctx context.Context, q intent.ListQuery) ([]intent.Row, error) {
	query := `SELECT kind, namespace, name, id, revision, created, updated, body FROM intent_rows
		WHERE kind = ? AND (namespace > ? OR (namespace = ? AND name > ?))`
	args := []any{q.Kind, q.After.Namespace, q.After.Namespace, q.After.Name}
	if q.Namespace != "" {
		query += ` AND namespace = ?`
		args = append(args, q.Namespace)
	}
	if q.Namespaces != nil {
		query += ` AND namespace IN (` + sqldb.Marks(len(q.Namespaces)) + `)`
		args = sqldb.AppendTexts(args, q.Namespaces)
	}
	query += ` ORDER BY namespace, name`
	if q.Limit > 0 {
		query += ` LIMIT ?`
		args = append(args, q.Limit)
	}
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", q.Kind, err)
	}
	out, err := scanRows(rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", q.Kind, err)
	}
	return out, nil
}

const changeColumns = `revision, part, at, who, whence, why, owner, kind, namespace, name, id, op, was`

func (s *sqlStore) Changes(ctx context.Context, after int64, limit int) ([]intent.Change, error) {
	query := `SELECT ` + changeColumns + `, before_body, after_body
		FROM intent_changes WHERE revision > ? ORDER BY revision, part`
	args := []any{after}
	if limit > 0 {
		// Whole revisions only: a reader goes on after the last one it got.
		query = `SELECT ` + changeColumns + `, before_body, after_body
			FROM intent_changes WHERE revision > ? AND revision <= (SELECT COALESCE(MAX(revision), 0) FROM
				(SELECT revision FROM intent_changes WHERE revision > ? ORDER BY revision, part LIMIT ?) AS page)
			ORDER BY revision, part`
		args = append(args, after, limit)
	}
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read changes after revision %d: %w", after, err)
	}
	return scanChanges(rows)
}

func scanChanges(rows *sqldb.Rows) ([]intent.Change, error) {
	defer rows.Close()
	var out []intent.Change
	for rows.Next() {
		var c intent.Change
		var at int64
		if err := rows.Scan(&c.Revision, &c.Part, &at, &c.Who.User, &c.Who.Whence, &c.Who.Why, &c.Who.Owner,
			&c.Key.Kind, &c.Key.Namespace, &c.Key.Name, &c.ID, &c.Op, &c.Was, &c.Before, &c.After); err != nil {
			return nil, fmt.Errorf("read changes: %w", err)
		}
		c.At = time.Unix(0, at).UTC()
		out = append(out, c)
	}
	return out, rows.Err()
}

func (s *sqlStore) ChangesBefore(ctx context.Context, q intent.ChangeQuery) ([]intent.Change, error) {
	query, args := `SELECT `+changeColumns+`, NULL, NULL FROM intent_changes WHERE 1 = 1`, []any{}
	if q.Bodies {
		query = `SELECT ` + changeColumns + `, before_body, after_body FROM intent_changes WHERE 1 = 1`
	}
	and := func(condition string, values ...any) {
		query += ` AND ` + condition
		args = append(args, values...)
	}
	for _, f := range []struct{ condition, value string }{
		{`kind = ?`, q.Kind}, {`namespace = ?`, q.Namespace},
	} {
		if f.value != "" {
			and(f.condition, f.value)
		}
	}
	if q.Namespaces != nil {
		and(`namespace IN (`+sqldb.Marks(len(q.Namespaces))+`)`, sqldb.AppendTexts(nil, q.Namespaces)...)
	}
	for _, kind := range q.NotKinds {
		and(`kind <> ?`, kind)
	}
	if q.People {
		and(`who <> ? AND who NOT LIKE ?`, "server", "token:%")
	}
	if q.Name != "" {
		and(`(name = ? OR (was <> '' AND was = ?))`, q.Name, q.Name)
	}
	if q.Gone {
		and(`op IN ('delete', 'retire')`)
	}
	if !q.Since.IsZero() {
		and(`at >= ?`, q.Since.UnixNano())
	}
	if q.Resources {
		and(`kind < ?`, "a") // capitals come before it
	}
	if q.Revision > 0 {
		and(`(revision < ? OR (revision = ? AND part < ?))`, q.Revision, q.Revision, q.Part)
	}
	query += ` ORDER BY revision DESC, part DESC`
	if q.Limit > 0 {
		query += ` LIMIT ?`
		args = append(args, q.Limit)
	}
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	return scanChanges(rows)
}

func (s *sqlStore) ForgetChanges(ctx context.Context, before time.Time, limit int) (int, error) {
	removed := 0
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		// The oldest first by key, so that later rows are not read.
		result, err := tx.Exec(ctx, `DELETE FROM intent_changes WHERE at < ? AND (revision, part) IN
			(SELECT revision, part FROM intent_changes ORDER BY revision, part LIMIT ?)`, before.UnixNano(), limit)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		removed = int(n)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("remove old changes: %w", err)
	}
	return removed, nil
}

func (s *sqlStore) Revision(ctx context.Context) (int64, error) {
	var revision int64
	if err := s.db.QueryRow(ctx, `SELECT revision FROM intent_revision WHERE one = 1`).Scan(&revision); err != nil {
		return 0, fmt.Errorf("read the revision: %w", err)
	}
	return revision, nil
}

// BeginLife implements intent.Store.
func (s *sqlStore) BeginLife(ctx context.Context, incarnation uint64) error {
	now := fmt.Sprintf("%016x", incarnation)
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		var was string
		if err := tx.QueryRow(ctx, `SELECT incarnation FROM intent_life WHERE one = 1`).Scan(&was); err != nil || was == now {
			return err
		}
		gap := int64(intent.IDGap)
		if was == "" {
			gap = 0 // the first life
		}
		if _, err := tx.Exec(ctx, `UPDATE intent_life SET incarnation = ?, skipped = skipped + ? WHERE one = 1`, now, gap); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE intent_ids SET last = last + ?`, gap)
		return err
	})
	if err != nil {
		return fmt.Errorf("start another incarnation of the intent: %w", err)
	}
	return nil
}
