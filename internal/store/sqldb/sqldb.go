// Package sqldb opens the two SQL engines behind one small face: SQLite in a file
// (pure Go, the default) and PostgreSQL. Stores write their statements once, with ?
// for arguments, and get the same transactions, migrations and errors from both.
//
// SQLite has one connection that writes, synchronous=FULL in WAL mode, and a pool
// that reads; PostgreSQL has one pool. Start reading at Open.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver named pgx
	_ "modernc.org/sqlite"             // the driver named sqlite

	"github.com/muster-fleet/muster/internal/model"
)

// Dialect says which engine answers.
type Dialect uint8

const (
	SQLite Dialect = iota
	PostgreSQL
)

// DB is an open database. It is safe for concurrent use.
type DB struct {
	Dialect Dialect
	writer  *sql.DB
	reader  *sql.DB
	name    string // for messages; without a password
}

// Open opens the database at dsn: postgres://… or the path of a SQLite file, which
// is made (0600) when it is not there.
func Open(ctx context.Context, dsn string) (*DB, error) {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		return openPostgres(ctx, dsn)
	}
	return openSQLite(ctx, dsn)
}

func openSQLite(ctx context.Context, path string) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	file.Close()
	source := func(extra string) string {
		return "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)" +
			"&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=cache_size(-16000)" + extra
	}
	db := &DB{Dialect: SQLite, name: path}
	if db.writer, err = sql.Open("sqlite", source("&_txlock=immediate")); err != nil {
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	db.writer.SetMaxOpenConns(1)
	if err := db.writer.PingContext(ctx); err != nil {
		db.writer.Close()
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	if db.reader, err = sql.Open("sqlite", source("&_pragma=query_only(1)")); err != nil {
		db.writer.Close()
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	db.reader.SetMaxOpenConns(4)
	return db, nil
}

func openPostgres(ctx context.Context, dsn string) (*DB, error) {
	name := "PostgreSQL"
	if u, err := url.Parse(dsn); err == nil {
		name = u.Redacted()
	}
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", name, err)
	}
	pool.SetMaxOpenConns(8)
	if err := pool.PingContext(ctx); err != nil {
		pool.Close()
		return nil, model.Errorf(model.Unavailable, "open database %s: %w", name, err).
			WithHint("is it running, and may this user connect?")
	}
	return &DB{Dialect: PostgreSQL, writer: pool, reader: pool, name: name}, nil
}

// Name is the database in messages.
func (db *DB) Name() string { return db.name }

// Close waits for running statements and closes.
func (db *DB) Close() error {
	if db.reader == db.writer {
		return db.writer.Close()
	}
	return errors.Join(db.reader.Close(), db.writer.Close())
}

// Rebind turns ? into what the engine wants. No statement of ours has a literal ?.
func (db *DB) Rebind(query string) string {
	if db.Dialect == SQLite {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

// Query reads, outside any transaction of ours.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.reader.QueryContext(ctx, db.Rebind(query), args...)
}

// QueryRow reads one row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return db.reader.QueryRowContext(ctx, db.Rebind(query), args...)
}

// Tx is a writing transaction.
type Tx struct {
	*sql.Tx
	db *DB
}

// Exec runs a statement with ? arguments.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return tx.ExecContext(ctx, tx.db.Rebind(query), args...)
}

// Query reads inside the transaction.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.QueryContext(ctx, tx.db.Rebind(query), args...)
}

// QueryRow reads one row inside the transaction.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.QueryRowContext(ctx, tx.db.Rebind(query), args...)
}

// Prepare makes a statement of ? arguments for many rows.
func (tx *Tx) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	return tx.PrepareContext(ctx, tx.db.Rebind(query))
}

// RowID is the column by which the engine itself knows a row.
func (tx *Tx) RowID() string {
	if tx.db.Dialect == PostgreSQL {
		return "ctid"
	}
	return "rowid"
}

// Write runs fn in one transaction: all of it is kept, durably, or none. Where the
// engine reports that two writers met, fn runs again (it must have no effects of
// its own).
func (db *DB) Write(ctx context.Context, fn func(tx *Tx) error) error {
	const attempts = 5
	var err error
	for range attempts {
		if err = db.writeOnce(ctx, fn); !metAnother(err) {
			return err
		}
	}
	return err
}

func (db *DB) writeOnce(ctx context.Context, fn func(tx *Tx) error) error {
	var opts *sql.TxOptions
	if db.Dialect == PostgreSQL {
		opts = &sql.TxOptions{Isolation: sql.LevelSerializable}
	}
	tx, err := db.writer.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin transaction in %s: %w", db.name, err)
	}
	if err := fn(&Tx{Tx: tx, db: db}); err != nil {
		return errors.Join(err, rollback(tx))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit transaction in %s: %w", db.name, err)
	}
	return nil
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// metAnother: PostgreSQL's serialization failure and deadlock.
func metAnother(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// Migrate brings the schema named component to len(steps), each step once, each in
// a transaction. Steps are only ever appended. Statements end with ; and say {blob},
// {serial} and {text} (compared byte by byte) where the engines differ.
func (db *DB) Migrate(ctx context.Context, component string, steps []string) error {
	err := db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_version (component TEXT PRIMARY KEY, version BIGINT NOT NULL)`)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate %s in %s: %w", component, db.name, err)
	}
	for {
		done := false
		err := db.Write(ctx, func(tx *Tx) error {
			var version int
			err := tx.QueryRow(ctx, `SELECT version FROM schema_version WHERE component = ?`, component).Scan(&version)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if version > len(steps) {
				return model.Errorf(model.Invalid, "%s: %s has schema version %d, this program knows %d", db.name, component, version, len(steps)).
					WithHint("it was written by a newer Muster: install that version, or restore a backup")
			}
			if done = version == len(steps); done {
				return nil
			}
			for statement := range strings.SplitSeq(db.translate(steps[version]), ";") {
				if strings.TrimSpace(statement) == "" {
					continue
				}
				if _, err := tx.Exec(ctx, statement); err != nil {
					return fmt.Errorf("step %d: %w", version+1, err)
				}
			}
			_, err = tx.Exec(ctx, `INSERT INTO schema_version (component, version) VALUES (?, ?)
				ON CONFLICT (component) DO UPDATE SET version = excluded.version`, component, version+1)
			return err
		})
		if err != nil {
			return fmt.Errorf("migrate %s in %s: %w", component, db.name, err)
		}
		if done {
			return nil
		}
	}
}

func (db *DB) translate(step string) string {
	if db.Dialect == PostgreSQL {
		return strings.NewReplacer("{blob}", "BYTEA", "{serial}", "BIGSERIAL PRIMARY KEY", "{text}", `TEXT COLLATE "C"`).Replace(step)
	}
	return strings.NewReplacer("{blob}", "BLOB", "{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT", "{text}", "TEXT").Replace(step)
}
