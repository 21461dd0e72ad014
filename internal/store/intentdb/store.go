// Package intentdb implements intent.Store on SQLite and on PostgreSQL by one set of statements. It keeps rows, the record
// of changes, the last id of each sequence, and the one row whose lock orders writers. It has no goroutines and no locks.
package intentdb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// sqlStore implements intent.Store, the store of declared resources, on SQLite and PostgreSQL. Both compare
// names byte by byte.
type sqlStore struct {
	db       *sqldb.DB
	kinds    *kind.Registry
	now      func() time.Time
	identity uint64
	lastID   atomic.Uint32 // highest id that any kind has got
}

// schema has one step for each version of the tables.
var schema = []string{`
	CREATE TABLE intent_rows (
		kind {text} NOT NULL, namespace {text} NOT NULL, name {text} NOT NULL,
		id BIGINT NOT NULL, revision BIGINT NOT NULL,
		created BIGINT NOT NULL, updated BIGINT NOT NULL, body {blob} NOT NULL, sum BIGINT NOT NULL,
		{sqlite} CHECK (sum = row_sum(kind, namespace, name, id, revision, created, updated, body)),
		PRIMARY KEY (kind, namespace, name));
	CREATE TABLE intent_changes (
		revision BIGINT NOT NULL, part BIGINT NOT NULL, at BIGINT NOT NULL,
		who {text} NOT NULL, whence {text} NOT NULL, why {text} NOT NULL, owner {text} NOT NULL,
		kind {text} NOT NULL, namespace {text} NOT NULL, name {text} NOT NULL,
		id BIGINT NOT NULL, op {text} NOT NULL, before_body {blob}, after_body {blob}, was {text} NOT NULL, sum BIGINT NOT NULL,
		{sqlite} CHECK (sum = row_sum(revision, part, at, who, whence, why, owner, kind, namespace, name, id, op, was, before_body, after_body)),
		PRIMARY KEY (revision, part));
	CREATE INDEX intent_changes_key ON intent_changes (kind, namespace, name, revision);
	CREATE INDEX intent_changes_was ON intent_changes (kind, namespace, was) WHERE was <> '';
	CREATE TABLE intent_ids (kind {text} PRIMARY KEY, last BIGINT NOT NULL);
	CREATE TABLE intent_revision (one BIGINT PRIMARY KEY, revision BIGINT NOT NULL);
	CREATE TABLE intent_life (one BIGINT PRIMARY KEY, identity BIGINT NOT NULL, incarnation {text} NOT NULL, skipped BIGINT NOT NULL);
`,
	`ALTER TABLE intent_changes ADD COLUMN maker {text} NOT NULL DEFAULT '';`, // of the author's token; the sum leaves it out
}

// singleRows writes the rows of tables with one row. It also replaces a row that a damaged page lost. The row of a
// lost one makes the store an older one or another one, which a start refuses.
const singleRows = `
	INSERT INTO intent_revision (one, revision) SELECT 1, COALESCE(MAX(revision), 0) FROM intent_rows WHERE true ON CONFLICT DO NOTHING;
	INSERT INTO intent_life (one, identity, incarnation, skipped) VALUES (1, 0, '', 0) ON CONFLICT DO NOTHING`

// Open opens the intent store (declared resources) at dsn and creates its schema. kinds are the kinds of its
// resources; now gives the times of changes.
func Open(ctx context.Context, dsn string, kinds *kind.Registry, now func() time.Time) (intent.Store, error) {
	db, err := sqldb.Open(ctx, dsn, "intent")
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &sqlStore{db: db, kinds: kinds, now: now}
	if s.identity, err = sqldb.Identity(ctx, db, "intent_life", singleRows); err == nil {
		err = s.readLastID(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Repair makes a damaged intent store (declared resources) usable, by sqldb.Repair.
func Repair(ctx context.Context, dsn string) (losses []string, err error) {
	return sqldb.Repair(ctx, dsn, "intent", schema, singleRows)
}

// Close closes the database.
func (s *sqlStore) Close() error { return s.db.Close() }

// Trouble returns why the database's last request failed, or nil if the request succeeded.
func (s *sqlStore) Trouble() error { return s.db.Trouble() }

// firstID returns the lowest id for declared resources of one kind, above the ids of built-in resources.
// Smaller ids belong to built-in resources.
func firstID(sequence string) uint32 {
	switch sequence {
	case "Check":
		return uint32(model.FirstCheck)
	case "Node", "Namespace":
		return 1000
	}
	return 1
}

// fixedID returns the permanent id of a built-in namespace. For any other key it is 0.
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

// isResource reports whether a kind is one of declared resources, not internal data. Such kinds start with a capital
// letter. The record of changes keeps bodies of resources only: rows of internal kinds may hold secrets.
func isResource(kind string) bool { return kind != "" && kind[0] >= 'A' && kind[0] <= 'Z' }

// Commit carries out all writes in one transaction with one revision number, or none of the writes. It updates the row
// of the revision first: the lock of that row orders writers.
func (s *sqlStore) Commit(ctx context.Context, by intent.Actor, writes []intent.Write) (out intent.CommitResult, err error) {
	at, last := s.now().UTC(), uint32(0)
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		out = intent.CommitResult{Rows: make([]intent.Row, 0, len(writes))}
		err := tx.QueryRow(ctx, `UPDATE intent_revision SET revision = revision + 1 WHERE one = 1 RETURNING revision`).Scan(&out.Revision)
		if err != nil {
			return fmt.Errorf("reserve the next revision number: %w", err)
		}
		w, err := newWriter(ctx, tx, s.kinds, out.Revision, at, by)
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
		last = slices.Max(append(slices.Collect(maps.Values(w.ids)), 0))
		return w.storeLastIDs(ctx)
	})
	if err != nil {
		return intent.CommitResult{}, err
	}
	if last > s.lastID.Load() { // the lock of the revision's row orders writers
		s.lastID.Store(last)
	}
	return out, nil
}

// commitWriter holds the prepared SQL statements of one commit, which may write tens of thousands of rows.
type commitWriter struct {
	tx                       *sqldb.Tx
	revision                 int64
	at                       time.Time
	by                       intent.Actor
	get, put, remove, change *sql.Stmt
	ids                      map[string]uint32 // last given id of each sequence
	kinds                    *kind.Registry
}

// newWriter prepares the SQL statements of one commit, which has a revision, time and author.
func newWriter(ctx context.Context, tx *sqldb.Tx, kinds *kind.Registry, revision int64, at time.Time, by intent.Actor) (*commitWriter, error) {
	w := &commitWriter{tx: tx, revision: revision, at: at, by: by, ids: map[string]uint32{}, kinds: kinds}
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&w.get, `SELECT id, revision, created, body FROM intent_rows WHERE kind = ? AND namespace = ? AND name = ?`},
		{&w.put, `INSERT INTO intent_rows (kind, namespace, name, id, revision, created, updated, body, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (kind, namespace, name) DO UPDATE SET revision = excluded.revision, updated = excluded.updated, body = excluded.body, sum = excluded.sum`},
		{&w.remove, `DELETE FROM intent_rows WHERE kind = ? AND namespace = ? AND name = ?`},
		{&w.change, `INSERT INTO intent_changes (revision, part, at, who, whence, why, owner, kind, namespace, name, id, op, was, before_body, after_body, maker, sum)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
	} {
		stmt, err := tx.Prepare(ctx, p.text)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("prepare a statement of the intent store: %w", err)
		}
		*p.to = stmt
	}
	return w, nil
}

// close closes the prepared statements.
func (w *commitWriter) close() {
	for _, stmt := range []*sql.Stmt{w.get, w.put, w.remove, w.change} {
		if stmt != nil {
			stmt.Close()
		}
	}
}

// read reads the row of a resource, as part of the commit's transaction. exists is false if no row has the key.
func (w *commitWriter) read(ctx context.Context, key intent.Key) (row intent.Row, exists bool, err error) {
	row.Key = key
	var created int64
	err = w.get.QueryRowContext(ctx, key.Kind, key.Namespace, key.Name).Scan(&row.ID, &row.Revision, &created, &row.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return row, false, nil
	}
	if err != nil {
		return row, false, fmt.Errorf("read the row of %s from the intent store: %w", key, err)
	}
	row.Created = sqldb.FromNanos(created)
	return row, true, nil
}

// write creates, changes, renames or deletes one resource of the commit, and records the change in a list.
func (w *commitWriter) write(ctx context.Context, part int, write intent.Write) (intent.Row, error) {
	key, source := write.Key, write.Source()
	before, exists, err := w.read(ctx, source)
	if err != nil {
		return intent.Row{}, err
	}
	if err := write.Check(exists, before.Revision); err != nil {
		return intent.Row{}, err
	}
	row := intent.Row{Key: key, ID: before.ID, Revision: w.revision, Created: w.at, Updated: w.at, Body: write.Body}
	if exists {
		row.Created = before.Created
	}
	op := "create"
	switch {
	case (write.Body == nil || write.From != "") && !exists:
		return intent.Row{}, model.Errorf(model.NotFound, "the resource %s does not exist", source)
	case write.From != "":
		op = "rename"
		occupant, occupied, err := w.read(ctx, key)
		if err == nil && occupied {
			err = intent.Write{Key: key}.Check(true, occupant.Revision)
		}
		if err != nil {
			return intent.Row{}, err
		}
	case write.Retire:
		op = "retire"
	case write.Body == nil:
		op = "delete"
	case exists:
		op = "update"
	default:
		row.ID, err = w.nextID(ctx, key)
	}
	if op != "create" && op != "update" {
		_, err = w.remove.ExecContext(ctx, source.Kind, source.Namespace, source.Name)
	}
	if err == nil && write.Body != nil {
		err = execWithChecksum(ctx, w.put, key.Kind, key.Namespace, key.Name, int64(row.ID), row.Revision,
			row.Created.UnixNano(), row.Updated.UnixNano(), write.Body)
	}
	if err != nil {
		return intent.Row{}, fmt.Errorf("%s %s: %w", op, key, err)
	}
	bodies := [2][]byte{}
	if isResource(key.Kind) {
		bodies = [2][]byte{before.Body, write.Body}
	}
	by := cmp.Or(write.By, &w.by)
	change := []any{w.revision, int64(part), w.at.UnixNano(), by.User, by.Address, by.Message, by.Owner,
		key.Kind, key.Namespace, key.Name, int64(row.ID), op, write.From, bodies[0], bodies[1]}
	_, err = w.change.ExecContext(ctx, append(change, by.Maker, sqldb.RowChecksum(change...))...)
	if err != nil {
		return intent.Row{}, fmt.Errorf("record the %s of %s in the list of changes: %w", op, key, err)
	}
	return row, nil
}

// execWithChecksum executes an SQL statement with the values of a row and their checksum.
func execWithChecksum(ctx context.Context, stmt *sql.Stmt, values ...any) error {
	_, err := stmt.ExecContext(ctx, append(values, sqldb.RowChecksum(values...))...)
	return err
}

// nextID returns an unused id for a new resource, given by kind, namespace and name.
func (w *commitWriter) nextID(ctx context.Context, key intent.Key) (uint32, error) {
	if id := fixedID(key); id != 0 {
		return id, nil
	}
	sequence := key.Kind
	if k, ok := w.kinds.Lookup(key.Kind); ok && k.Unit != 0 {
		sequence = "Check" // of all kinds of units: an id names one unit
	}
	last, known := w.ids[sequence]
	if !known {
		err := w.tx.QueryRow(ctx, `SELECT COALESCE((SELECT last FROM intent_ids WHERE kind = ?),
			(SELECT skipped FROM intent_life WHERE one = 1) + ?)`, sequence, int64(firstID(sequence)-1)).Scan(&last)
		if err != nil {
			return 0, fmt.Errorf("read the highest assigned id: %w", err)
		}
	}
	if last == ^uint32(0) {
		return 0, model.Errorf(model.Limited, "no free id is left for resources of kind %s", key.Kind)
	}
	w.ids[sequence] = last + 1
	return last + 1, nil
}

// storeLastIDs stores, for each kind of resource, the last id that was given out.
func (w *commitWriter) storeLastIDs(ctx context.Context) error {
	for kind, last := range w.ids {
		_, err := w.tx.Exec(ctx, `INSERT INTO intent_ids (kind, last) VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET last = excluded.last`, kind, int64(last))
		if err != nil {
			return fmt.Errorf("store the highest assigned id of kind %s: %w", kind, err)
		}
	}
	return nil
}

const rowColumns = `kind, namespace, name, id, revision, created, updated, body`

// scanRow reads the row of a resource, with the columns that rowColumns lists.
func scanRow(scan sqldb.Scan) (row intent.Row, err error) {
	var read struct { // one allocation: database/sql gets pointers
		intent.Row
		created, updated int64
	}
	err = scan(&read.Kind, &read.Namespace, &read.Name, &read.ID, &read.Revision, &read.created, &read.updated, &read.Body)
	read.Created, read.Updated = sqldb.FromNanos(read.created), sqldb.FromNanos(read.updated)
	return read.Row, err
}

// Get returns the stored row of a resource, given by kind, namespace and name.
func (s *sqlStore) Get(ctx context.Context, key intent.Key) (intent.Row, error) {
	rows, err := sqldb.List(ctx, s.db, key.String(), scanRow, `SELECT `+rowColumns+` FROM intent_rows WHERE kind = ? AND namespace = ? AND name = ?`,
		key.Kind, key.Namespace, key.Name)
	if err == nil && len(rows) == 0 {
		err = model.Errorf(model.NotFound, "the resource %s does not exist", key)
	}
	if err != nil {
		return intent.Row{}, err
	}
	return rows[0], nil
}

// keysPerQuery limits the keys of one query, because a database takes some ten thousand parameters.
const keysPerQuery = 2000

// GetAll returns the stored rows of some resource keys, without missing resources.
func (s *sqlStore) GetAll(ctx context.Context, keys []intent.Key) (out []intent.Row, err error) {
	for definition := range slices.Chunk(keys, keysPerQuery) {
		args := make([]any, 0, 3*len(definition))
		for _, key := range definition {
			args = append(args, key.Kind, key.Namespace, key.Name)
		}
		rows, err := sqldb.List(ctx, s.db, fmt.Sprintf("%d resources", len(definition)), scanRow, `SELECT `+rowColumns+` FROM intent_rows
			WHERE (kind, namespace, name) IN (VALUES (?, ?, ?)`+strings.Repeat(", (?, ?, ?)", len(definition)-1)+`)`, args...)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// List returns all stored rows of a kind, sorted by namespace and name.
func (s *sqlStore) List(ctx context.Context, q intent.ListQuery) ([]intent.Row, error) {
	w := &sqldb.Where{}
	w.And(`kind = ? AND (namespace > ? OR (namespace = ? AND name > ?))`, q.Kind, q.After.Namespace, q.After.Namespace, q.After.Name)
	w.AndEqual(`namespace`, q.Namespace)
	sqldb.AndIn(w, `namespace`, q.Namespaces)
	return sqldb.List(ctx, s.db, "rows of kind "+q.Kind, scanRow, `SELECT `+rowColumns+` FROM intent_rows WHERE `+w.SQL("")+
		` ORDER BY namespace, name`+limitClause(q.Limit), w.Args...)
}

// limitClause returns the SQL LIMIT clause for n rows. It is empty for 0.
func limitClause(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(` LIMIT %d`, n)
}

// changes returns the recorded changes of resources that an SQL query selects. tail is the SQL from WHERE on.
// With bodies it also reads the bodies before and after the change.
func (s *sqlStore) changes(ctx context.Context, bodies bool, tail string, args ...any) ([]intent.Change, error) {
	columns := `NULL, NULL`
	if bodies {
		columns = `before_body, after_body`
	}
	return sqldb.List(ctx, s.db, "changes", func(scan sqldb.Scan) (c intent.Change, err error) {
		var at int64
		err = scan(&c.Revision, &c.Part, &at, &c.Actor.User, &c.Actor.Address, &c.Actor.Message, &c.Actor.Owner, &c.Actor.Maker,
			&c.Key.Kind, &c.Key.Namespace, &c.Key.Name, &c.ID, &c.Op, &c.Was, &c.Before, &c.After)
		c.At = sqldb.FromNanos(at)
		return c, err
	}, `SELECT revision, part, at, who, whence, why, owner, maker, kind, namespace, name, id, op, was, `+columns+` FROM intent_changes `+tail, args...)
}

// Changes returns the recorded changes after a revision number, and never only some changes of one revision.
func (s *sqlStore) Changes(ctx context.Context, after int64, most int) ([]intent.Change, error) {
	w := &sqldb.Where{}
	w.And(`revision > ?`, after)
	if most > 0 { // whole revisions only: a reader continues after the last revision that it read
		w.And(`revision <= (SELECT COALESCE(MAX(revision), 0) FROM
			(SELECT revision FROM intent_changes WHERE revision > ? ORDER BY revision, part LIMIT ?) AS page)`, after, most)
	}
	return s.changes(ctx, true, `WHERE `+w.SQL("")+` ORDER BY revision, part`, w.Args...)
}

// ChangesBefore returns recorded changes for display, newest first.
func (s *sqlStore) ChangesBefore(ctx context.Context, q intent.ChangeQuery) ([]intent.Change, error) {
	w := &sqldb.Where{}
	w.AndEqual(`kind`, q.Kind)
	w.AndEqual(`namespace`, q.Namespace)
	sqldb.AndIn(w, `namespace`, q.Namespaces)
	for _, kind := range q.NotKinds {
		w.And(`kind <> ?`, kind)
	}
	if q.People {
		w.And(`who <> ? AND who NOT LIKE ?`, "server", "token:%")
	}
	if q.Name != "" {
		w.And(`(name = ? OR (was <> '' AND was = ?))`, q.Name, q.Name)
	}
	if q.OnlyDeletions {
		w.And(`op IN ('delete', 'retire')`)
	}
	if !q.Since.IsZero() {
		w.And(`at >= ?`, q.Since.UnixNano())
	}
	if q.Resources {
		w.And(`kind < ?`, "a") // names of resource kinds begin with a capital, which sorts before a
	}
	if q.Revision > 0 {
		w.And(`(revision < ? OR (revision = ? AND part < ?))`, q.Revision, q.Revision, q.Part)
	}
	return s.changes(ctx, q.Bodies, `WHERE `+w.SQL("")+` ORDER BY revision DESC, part DESC`+limitClause(q.Limit), w.Args...)
}

// ForgetChanges deletes recorded changes older than a time, at most `limit` per call.
func (s *sqlStore) ForgetChanges(ctx context.Context, before time.Time, limit int) (int, error) {
	removed := 0
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		// The query finds the oldest changes by the primary key, so that it does not read later rows.
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
		return 0, fmt.Errorf("remove old recorded changes from the intent store: %w", err)
	}
	return removed, nil
}

// Revision returns the number of the last revision (committed change).
func (s *sqlStore) Revision(ctx context.Context) (int64, error) {
	return sqldb.QueryValue[int64](ctx, s.db, "the revision", `SELECT revision FROM intent_revision WHERE one = 1`)
}

// Identity returns the random number that identifies the store, made at its creation.
func (s *sqlStore) Identity() uint64 { return s.identity }

// LastID returns the highest id that the store has given to a resource of any kind.
func (s *sqlStore) LastID() uint32 { return s.lastID.Load() }

// Incarnation returns the journal id that RecordIncarnation stored last, or zero for none.
func (s *sqlStore) Incarnation(ctx context.Context) (incarnation uint64, err error) {
	text, err := sqldb.QueryValue[string](ctx, s.db, "the incarnation", `SELECT incarnation FROM intent_life WHERE one = 1`)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseUint(text, 16, 64)
}

// RecordIncarnation stores the id of the journal that the server now uses. It skips resource ids if the store
// may be an older copy.
func (s *sqlStore) RecordIncarnation(ctx context.Context, incarnation uint64, seen intent.JournaledRevision) error {
	now, seenID := fmt.Sprintf("%016x", incarnation), int64(seen.LastID)
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		var was string
		var skipped int64
		if err := tx.QueryRow(ctx, `SELECT incarnation, skipped FROM intent_life WHERE one = 1`).Scan(&was, &skipped); err != nil || was == now {
			return err
		}
		gap := int64(intent.IDGap)
		if was == "" && seen == (intent.JournaledRevision{}) {
			gap = 0 // the first incarnation
		}
		if _, err := tx.Exec(ctx, `UPDATE intent_life SET incarnation = ?, skipped = ? WHERE one = 1`, now, max(skipped, seenID)+gap); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE intent_revision SET revision = ? WHERE one = 1 AND revision < ?`, seen.Revision, seen.Revision); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE intent_ids SET last = CASE WHEN last < ? THEN ? ELSE last END + ?`, seenID, seenID, gap)
		return err
	})
	if err == nil {
		err = s.readLastID(ctx)
	}
	if err != nil {
		return fmt.Errorf("record the journal's new id (incarnation) in the intent store: %w", err)
	}
	return nil
}

// readLastID reads the highest id that was assigned to a resource of any kind.
func (s *sqlStore) readLastID(ctx context.Context) error {
	last, err := sqldb.QueryValue[int64](ctx, s.db, "the highest id", `SELECT COALESCE(MAX(last), 0) FROM intent_ids`)
	s.lastID.Store(uint32(last))
	return err
}
