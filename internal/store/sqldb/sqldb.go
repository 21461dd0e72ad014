// Package sqldb opens two SQL engines behind one small interface: SQLite in a file (pure Go, the
// default) and PostgreSQL. Stores write their statements once, with ? for arguments, and get the
// same transactions, migrations and errors from both.
//
// Both have one connection that writes and a pool that reads. SQLite runs in WAL mode with
// synchronous=FULL. In PostgreSQL the writing connection holds a lock from its beginning to its end
// (postgres.go): a second server cannot write. error_hints.go explains why a database does not answer.
// Start reading at Open.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver named sqlite

	"github.com/muster-fleet/muster/internal/model"
)

// Dialect is the SQL dialect of a DB, which is SQLite or PostgreSQL.
type Dialect uint8

const (
	SQLite Dialect = iota
	PostgreSQL
)

// DB is an open SQLite or PostgreSQL database. Safe for concurrent use.
type DB struct {
	Dialect     Dialect
	component   string // the component whose tables it has: intent or history
	writer      *sql.DB
	reader      *sql.DB
	name        string // for messages; without a password
	trouble     atomic.Pointer[error]
	writeFailed atomic.Bool // the trouble is of a write
}

// Open opens the PostgreSQL database or SQLite file at dsn. It creates a missing file (0600). It verifies an intent
// file always, other files after an unclean end. component names the content (intent, history): one database may hold
// several, each with one writing server.
func Open(ctx context.Context, dsn, component string) (*DB, error) {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		return openPostgres(ctx, dsn, component)
	}
	return openSQLite(ctx, dsn, component)
}

// openSQLite opens or creates the SQLite file of a store, such as intent or history.
func openSQLite(ctx context.Context, path, component string) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	file.Close()
	wal, err := os.Stat(path + "-wal") // the last one to close a database removes it
	unclean := err == nil && wal.Size() > 0
	options := func(extra string) string {
		return "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)" +
			"&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=cache_size(-16000)&_pragma=temp_store(MEMORY)&_pragma=wal_autocheckpoint(4000)&_pragma=journal_size_limit(16384000)" + extra
	}
	db := &DB{Dialect: SQLite, component: component, name: path}
	if db.writer, err = openFile(path, options("&_txlock=immediate")); err != nil {
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	db.writer.SetMaxOpenConns(1)
	if err = checkHeader(path); err == nil {
		err = db.writer.PingContext(ctx)
	}
	if err == nil && (unclean || component == "intent") { // small, and its rows have checksums
		err = quickCheck(ctx, db.writer)
	}
	if err != nil {
		db.writer.Close()
		return nil, fmt.Errorf("open database %q: %w", path, db.recordTrouble(err, false))
	}
	if db.reader, err = openFile(path, options("&_pragma=query_only(1)")); err != nil {
		db.writer.Close()
		return nil, fmt.Errorf("open database %q: %w", path, err)
	}
	db.reader.SetMaxOpenConns(4)
	return db, nil
}

// Name returns the database's path or URL for error messages.
func (db *DB) Name() string { return db.name }

// Close waits for running statements and closes all connections.
func (db *DB) Close() error {
	if db.reader == db.writer {
		return db.writer.Close()
	}
	return errors.Join(db.reader.Close(), db.writer.Close())
}

// Rebind replaces each ? in a statement by the database's own placeholder, such as $1. Muster's statements have no
// literal question mark.
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

// FileSize returns the size of a SQLite file in bytes, and the bytes of its used pages.
func (db *DB) FileSize(ctx context.Context) (file, used int64, err error) {
	err = db.QueryRow(ctx, `SELECT page_count * page_size, (page_count - freelist_count) * page_size
		FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`).Scan(&file, &used)
	if err != nil {
		return 0, 0, fmt.Errorf("read the file size of database %s: %w", db.name, err)
	}
	return file, used, nil
}

// Time limits for callers without one, so that a hanging database does not block callers for ever.
const (
	readWithin  = time.Minute
	writeWithin = 2 * time.Minute
)

// Rows iterates over the rows of a query. The caller closes it.
type Rows struct {
	*sql.Rows
	db     *DB
	cancel context.CancelFunc
}

// Next advances to the next row, and returns false after the last row. After the last row it does not call the
// database again.
func (r *Rows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.cancel()
	return false
}

// Close ends the query and releases its connection.
func (r *Rows) Close() error {
	defer r.cancel()
	return r.Rows.Close()
}

// Err returns the error because of which Next stopped early, or nil.
func (r *Rows) Err() error { return r.db.recordTrouble(r.Rows.Err(), false) }

// Query runs a query outside of transactions and returns its rows.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	rows, err := db.reader.QueryContext(ctx, db.Rebind(query), args...)
	if err := db.recordTrouble(err, false); err != nil {
		cancel()
		return nil, err
	}
	return &Rows{rows, db, cancel}, nil
}

// Row is the result of a query that returns one row. The caller scans it.
type Row struct {
	row    *sql.Row
	db     *DB
	cancel context.CancelFunc
}

// Scan copies the columns of the row into variables. The error is sql.ErrNoRows if the query found no row.
func (r *Row) Scan(dest ...any) error {
	defer r.cancel()
	return r.db.recordTrouble(r.row.Scan(dest...), false)
}

// QueryRow runs a query that returns one row, outside of transactions.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *Row {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	return &Row{db.reader.QueryRowContext(ctx, db.Rebind(query), args...), db, cancel}
}

// Tx is an open transaction that may write.
type Tx struct {
	*sql.Tx
	db *DB
}

// Exec runs a statement inside the transaction, with arguments for its ? placeholders.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return tx.ExecContext(ctx, tx.db.Rebind(query), args...)
}

// Query runs a query inside the transaction.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.QueryContext(ctx, tx.db.Rebind(query), args...)
}

// QueryRow reads one row inside the transaction.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.QueryRowContext(ctx, tx.db.Rebind(query), args...)
}

// Prepare prepares a statement with ? placeholders, which the transaction executes for many rows.
func (tx *Tx) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	return tx.PrepareContext(ctx, tx.db.Rebind(query))
}

// Prepare prepares a statement with ? placeholders for use in later transactions (by Tx.StmtContext). Call it
// after Migrate; it lives as long as the DB.
func (db *DB) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	stmt, err := db.writer.PrepareContext(ctx, db.Rebind(query))
	if err != nil {
		return nil, db.recordTrouble(fmt.Errorf("prepare the SQL statement %.60s: %w", query, err), false)
	}
	return stmt, nil
}

// Write runs fn in one transaction. All its changes are durable, or none. Only this process writes, on one connection,
// so one transaction runs at a time.
func (db *DB) Write(ctx context.Context, fn func(tx *Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return db.recordTrouble(db.write(ctx, fn), true)
}

// write runs fn in one transaction without a time limit, unlike the method Write.
func (db *DB) write(ctx context.Context, fn func(tx *Tx) error) error {
	tx, err := db.writer.BeginTx(ctx, nil)
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

// rollback rolls back a transaction. An ended transaction is no error.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("roll back the transaction: %w", err)
	}
	return nil
}

// Migrate brings the database schema of a store to the newest version, by the missing upgrade steps. Each step is a
// transaction. Steps are only ever appended. Statements end with ; and use {blob}, {serial}, {id} (a key that the
// program assigns), {text} (compared byte by byte), at the beginning of a line for SQLite alone {sqlite}, and, at the
// end of a table stored in key order, {clustered}, where the engines differ.
func (db *DB) Migrate(ctx context.Context, steps []string) error {
	if err := db.migrate(ctx, steps); err != nil {
		return fmt.Errorf("upgrade the schema of %s in database %s: %w", db.component, db.name, db.recordTrouble(err, false))
	}
	return nil
}

// migrate runs the schema upgrade steps that a database lacks, each in a transaction. It has no time limit, because an
// index over a large table may take long.
func (db *DB) migrate(ctx context.Context, steps []string) error {
	err := db.write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_version (component TEXT PRIMARY KEY, version BIGINT NOT NULL)`)
		return err
	})
	if err != nil {
		return err
	}
	for {
		done := false
		err := db.write(ctx, func(tx *Tx) error {
			var version int
			err := tx.QueryRow(ctx, `SELECT version FROM schema_version WHERE component = ?`, db.component).Scan(&version)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if err != nil && db.Dialect == SQLite { // a damaged page may have lost the row: the tables are there
				tables := 0
				if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM sqlite_schema WHERE name = ?`, db.component+"_life").Scan(&tables); err != nil {
					return err
				}
				version = min(tables, 1) * len(steps)
			}
			if version > len(steps) {
				return model.Errorf(model.Conflict, "database %s: the %s store has schema version %d, this program knows %d", db.name, db.component, version, len(steps)).
					WithHint("a newer Muster wrote this database: install that version, or restore a backup")
			}
			if done = version == len(steps); done {
				return nil
			}
			for statement := range strings.SplitSeq(db.translate(steps[version]), ";") {
				if strings.TrimSpace(statement) == "" {
					continue
				}
				if _, err := tx.Exec(ctx, statement); err != nil {
					return fmt.Errorf("schema upgrade to version %d: %w", version+1, err)
				}
			}
			_, err = tx.Exec(ctx, `INSERT INTO schema_version (component, version) VALUES (?, ?)
				ON CONFLICT (component) DO UPDATE SET version = excluded.version`, db.component, version+1)
			return err
		})
		if err != nil || done {
			return err
		}
	}
}

// Identity returns the random number that identifies a database. A database without a number gets one. A copy of the
// database keeps the number; a new database gets another. The statements of rows, with ; between them, write that row
// where it is missing.
func Identity(ctx context.Context, db *DB, table, rows string) (uint64, error) {
	err := db.Write(ctx, func(tx *Tx) error {
		for statement := range strings.SplitSeq(rows, ";") {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `UPDATE `+table+` SET identity = ? WHERE one = 1 AND identity = 0`, rand.Int64()|1)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("create the random identity number of database %s: %w", db.name, err)
	}
	identity, err := QueryValue[int64](ctx, db, "the identity", `SELECT identity FROM `+table+` WHERE one = 1`)
	return uint64(identity), err
}

// translate replaces placeholders in a schema step, such as {text}, by words of the SQL dialect.
func (db *DB) translate(step string) string {
	if db.Dialect == PostgreSQL {
		return strings.NewReplacer("{blob}", "BYTEA", "{serial}", "BIGSERIAL PRIMARY KEY", "{sqlite}", "--", "{id}", "BIGINT PRIMARY KEY", "{text}", `TEXT COLLATE "C"`, "{clustered}", "").Replace(step)
	}
	return strings.NewReplacer("{blob}", "BLOB", "{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT", "{sqlite}", "", "{id}", "INTEGER PRIMARY KEY", "{text}", "TEXT", "{clustered}", " WITHOUT ROWID").Replace(step)
}
