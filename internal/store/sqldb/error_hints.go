package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/muster-fleet/muster/internal/model"
)

// Trouble returns the reason why the database fails at present, or nil. It is nil if the last query and the last write
// succeeded.
func (db *DB) Trouble() error {
	if err := db.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// flagName returns the command-line flag that selects the database.
func (db *DB) flagName() string { return db.component + "-db" }

// recordTrouble remembers that the database is unavailable, if an error says so, and adds a hint for users. It returns
// errors of statements unchanged. A database that another program has locked answers reads: after a failed write only
// a write ends the trouble.
func (db *DB) recordTrouble(err error, write bool) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		if db.trouble.Load() != nil && (write || !db.writeFailed.Load()) {
			db.writeFailed.Store(false)
			db.trouble.Store(nil)
		}
		return err
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if said := (*model.Error)(nil); errors.As(err, &said) {
		if errors.Is(err, errDatabaseTaken) {
			taken := err // a copy, so that err of the usual call stays off the heap
			db.trouble.Store(&taken)
			db.writeFailed.Store(write)
		}
		return err
	}
	hint, ok := db.unavailableHint(err)
	if !ok {
		return err
	}
	trouble := error(model.Errorf(model.Unavailable, "the database of the %s store does not answer: %w", db.component, oneLineError{err}).WithHint("%s", hint))
	if isDamage(err) {
		trouble = model.Errorf(model.Unavailable, "the database %s is damaged: %w", db.name, oneLineError{err}).WithHint("%s", hint)
	}
	db.trouble.Store(&trouble)
	if write {
		db.writeFailed.Store(true)
	}
	return trouble
}

// unavailableHint reports whether an error means that the database is unavailable, and returns a hint for users. Other
// errors mean that a statement is wrong.
func (db *DB) unavailableHint(err error) (hint string, ok bool) {
	if isDamage(err) {
		return db.repairHint(), true
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return "another program holds " + db.name + ": fuser " + db.name, true
		case sqlite3.SQLITE_FULL:
			return "free space: df " + db.name, true
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
			return "check the disk and the permissions of " + db.name + ": dmesg | tail", true
		}
		return "", false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return db.postgresHint(pg)
	}
	var dns *net.DNSError
	var network net.Error
	var connect *pgconn.ConnectError
	running := "check that PostgreSQL runs and is reachable: pg_isready -d '" + db.name + "'"
	if db.Dialect == SQLite {
		running = "check whether the disk of " + db.name + " or the machine is overloaded: iostat -x 1 3; uptime"
	}
	switch {
	case errors.As(err, &dns):
		return "check the host name in --" + db.flagName() + ": getent hosts " + dns.Name, true
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), "conn closed"):
		return running, true
	}
	return "", false
}

// repairHint returns the muster command that repairs a damaged database file.
func (db *DB) repairHint() string {
	command := "muster doctor repair --data " + filepath.Dir(db.name)
	if filepath.Base(db.name) != db.component+".db" { // the flag names a file elsewhere
		command = "muster doctor repair --data DIR --" + db.flagName() + " " + db.name
	}
	return "restore the data folder from a backup; or stop the server and keep the readable rows: " + command
}

// postgresHint returns the hint for an error code of PostgreSQL (appendix A of its manual).
func (db *DB) postgresHint(pg *pgconn.PgError) (hint string, ok bool) {
	switch {
	case strings.HasPrefix(pg.Code, "28"): // invalid authorization
		return "check user and password in --" + db.flagName() + " (or its environment variable), and pg_hba.conf on the server", true
	case pg.Code == "3D000": // no such database
		return "create the database: createdb -E UTF8 -T template0 -O USER DATABASE", true
	case pg.Code == "42501": // insufficient privilege
		return "let the user own the database: ALTER DATABASE … OWNER TO …; or GRANT CREATE, USAGE ON SCHEMA public TO …", true
	case pg.Code == "25006": // read-only transaction
		return "this is a standby: name the primary, or add target_session_attrs=read-write", true
	case pg.Code == "53300": // too many connections
		return "raise max_connections; a server of Muster needs up to 18", true
	case pg.Code == "53100": // disk full
		return "free space on PostgreSQL's disk", true
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "57P"), strings.HasPrefix(pg.Code, "58"):
		return "read PostgreSQL's log; the server continues when PostgreSQL does", true
	}
	return "", false
}

// oneLineError is an error of a database driver whose text has no line ends. Drivers print one line per address.
type oneLineError struct{ error }

// Error returns the wrapped error's text with line ends replaced by spaces.
func (e oneLineError) Error() string {
	text := strings.Join(strings.Fields(e.error.Error()), " ")
	return strings.ReplaceAll(text, ": failed to connect", ", failed to connect")
}

// Unwrap returns the original error.
func (e oneLineError) Unwrap() error { return e.error }
