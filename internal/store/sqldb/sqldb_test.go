package sqldb

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
)

// Transactions, migrations and column types work on SQLite.
func TestSQLiteTransactions(t *testing.T) {
	testTransactions(t, filepath.Join(t.TempDir(), "a b?.db"))
}

// testTransactions checks the guarantees of both engines; TestPostgreSQL calls it too.

// testTransactions checks transactions, migrations and column types on one kind of database.
func testTransactions(t *testing.T, dsn string) {
	steps := []string{`CREATE TABLE t (id {serial}, k {text} NOT NULL, v {blob}); CREATE INDEX t_k ON t (k);`}
	ctx := t.Context()
	db, err := Open(ctx, dsn, "test")
	testenv.NoError(t, err)
	defer db.Close()
	for range 2 { // the second migration has no work
		testenv.NoError(t, db.Migrate(ctx, steps))
	}
	stop := errors.New("stop")
	for _, outcome := range []error{nil, stop} {
		err := db.Write(ctx, func(tx *Tx) error {
			for _, k := range []string{"b", "a", "A"} {
				if _, err := tx.Exec(ctx, `INSERT INTO t (k, v) VALUES (?, ?)`, k, []byte{0, 255}); err != nil {
					return err
				}
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			t.Fatalf("got %v, want %v", err, outcome)
		}
	}
	rows, err := db.Query(ctx, `SELECT k, v FROM t WHERE k >= ? ORDER BY k`, "A")
	testenv.NoError(t, err)
	defer rows.Close()
	var got strings.Builder
	for rows.Next() {
		var k string
		var v []byte
		if err := rows.Scan(&k, &v); err != nil || len(v) != 2 {
			t.Fatal(err, v)
		}
		got.WriteString(k)
	}
	if got.String() != "Aab" {
		t.Fatalf("got %q: want one set of rows, ordered by bytes", got.String())
	}
	if err := db.Migrate(ctx, nil); err == nil || !strings.Contains(err.Error(), "newer Muster") {
		t.Fatalf("a newer schema must be refused, got %v", err)
	}
}

// TestPostgreSQL runs the database tests on PostgreSQL.
func TestPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	t.Run("PostgreSQL runs", func(t *testing.T) { // most of its time is waiting for a lock
		for name, test := range map[string]func(*testing.T, *pgtest.Server){
			"promises":                               func(t *testing.T, server *pgtest.Server) { testTransactions(t, server.Database(t)) },
			"refusals say what to type":              testRefusedDatabases,
			"one server writes":                      testSecondServerIsRefused,
			"a lost connection does not lock us out": testLostConnection,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, server) })
		}
	})
	t.Run("PostgreSQL restarts", func(t *testing.T) { testWritesAfterRestart(t, server) })
}

// TestSlowFileHintNamesDisk simulates a timeout on a SQLite file, and expects a hint about its disk, not
// PostgreSQL.
func TestSlowFileHintNamesDisk(t *testing.T) {
	db := &DB{Dialect: SQLite, component: "intent", name: "/data/intent.db"}
	if hint, ok := db.unavailableHint(context.DeadlineExceeded); !ok || !strings.Contains(hint, "disk of /data/intent.db") || strings.Contains(hint, "pg_isready") {
		t.Error(hint, ok)
	}
}

// testRefusedDatabases checks the error messages for a wrong address and for a database that does not suit Muster.
func testRefusedDatabases(t *testing.T, server *pgtest.Server) {
	server.RequirePasswords(t)
	admin := server.DSN("postgres", "muster", "")
	server.Exec(t, admin, "CREATE ROLE ada LOGIN PASSWORD 'right'")
	server.Exec(t, admin, "CREATE DATABASE latin ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
	good := server.Database(t)
	name := strings.TrimPrefix(good[strings.Index(good, "//")+2:], "muster@/")
	name, _, _ = strings.Cut(name, "?")
	for _, c := range []struct {
		what, dsn string
		class     model.Class
		want      []string
	}{
		{"no address", "postgres://:bad port/x", model.Invalid, []string{"history-db", "postgres://USER:PASSWORD@HOST"}},
		{"unknown host", "postgres://ada:secret@no-such-host.invalid/x", model.Unavailable, []string{"no-such-host.invalid", "host name in --history-db"}},
		{"nobody listens", "postgres://ada:secret@127.0.0.1:1/x", model.Unavailable, []string{"connection refused", "check that PostgreSQL runs", "pg_isready -d 'postgres://ada:xxxxx@127.0.0.1:1/x'"}},
		{"wrong password", server.DSN(name, "ada", "secret"), model.Unavailable, []string{"password authentication failed", "user and password in --history-db"}},
		{"no such database", server.DSN("nowhere", "muster", ""), model.Unavailable, []string{`"nowhere" does not exist`, "createdb"}},
		{"another encoding", server.DSN("latin", "muster", ""), model.Invalid, []string{"SQL_ASCII", "createdb -E UTF8"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			db, err := Open(t.Context(), c.dsn, "history")
			if err == nil {
				db.Close()
				t.Fatal("opened")
			}
			var said *model.Error
			if !errors.As(err, &said) || said.Class != c.class {
				t.Fatalf("class of %v", err)
			}
			text := err.Error() + "\n" + said.Hint
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in: %s", want, text)
				}
			}
			if strings.Contains(text, "secret") {
				t.Errorf("the password is shown: %s", text)
			}
		})
	}
	t.Run("the user may not create tables", func(t *testing.T) {
		db, err := Open(t.Context(), server.DSN(name, "ada", "right"), "history")
		testenv.NoError(t, err)
		defer db.Close()
		if err := db.Migrate(t.Context(), nil); model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "OWNER TO") {
			t.Errorf("%v", err)
		}
	})
}

// TestOldVersions checks which versions of PostgreSQL are refused.
func TestOldVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		"9.6.24": false, "12.22 (Ubuntu 12.22-1)": false, "13.0": true, "15.13 (Debian 15.13-0+deb12u1)": true, "18beta1": true, "": true,
	} {
		err := checkServerVersion(version)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), version) {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// testSecondServerIsRefused opens a database twice, and expects the second server to be refused until the first
// closes. Another component, or another schema, has a lock of its own.
func testSecondServerIsRefused(t *testing.T, server *pgtest.Server) {
	dsn := server.Database(t)
	first := mustOpen(t, dsn, "history")
	mustOpen(t, dsn, "intent").Close()
	_, err := Open(t.Context(), dsn, "history")
	if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "another server uses this database: muster history: process") ||
		!strings.Contains(err.Error(), "--history-db") {
		t.Fatalf("%v", err)
	}
	first.Close()
	mustOpen(t, dsn, "history").Close()
}

// testWritesAfterRestart restarts PostgreSQL, and expects writes and the lock to work afterwards. Queries during the
// stop fail with the reason.
func testWritesAfterRestart(t *testing.T, server *pgtest.Server) {
	dsn := server.Database(t)
	db := mustOpen(t, dsn, "history")
	steps := []string{`CREATE TABLE t (k {text} PRIMARY KEY);`}
	testenv.NoError(t, db.Migrate(t.Context(), steps))
	write := func(k string) error {
		return db.Write(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec(t.Context(), `INSERT INTO t (k) VALUES (?)`, k)
			return err
		})
	}
	count := func() (n int, err error) {
		err = db.QueryRow(t.Context(), `SELECT COUNT(*) FROM t`).Scan(&n)
		return n, err
	}
	testenv.NoError(t, write("before"))
	server.Stop(t)
	if err := write("meanwhile"); model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "history store does not answer") {
		t.Errorf("write: %v", err)
	}
	if _, err := count(); model.ClassOf(err) != model.Unavailable {
		t.Errorf("read: %v", err)
	}
	if db.Trouble() == nil {
		t.Error("no trouble is told")
	}
	server.Restart(t)
	testenv.Until(t, "it comes back", func() bool { return write("after") == nil })
	if n, err := count(); n != 2 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	if err := db.Trouble(); err != nil {
		t.Errorf("trouble although it answers: %v", err)
	}
	if _, err := Open(t.Context(), dsn, "history"); model.ClassOf(err) != model.Conflict {
		t.Errorf("the lock was not taken anew: %v", err)
	}
}

// testLostConnection breaks a server's database connection, and expects the server to get its lock back. The break is
// unnoticed, and the old connection has the lock.
func testLostConnection(t *testing.T, server *pgtest.Server) {
	db := mustOpen(t, server.Database(t), "history")
	hold, err := db.writer.Conn(t.Context()) // the old connection, still alive on the server
	testenv.NoError(t, err)
	defer hold.Close()
	db.writer.SetMaxOpenConns(2) // as database/sql does after giving up a connection
	ctx, cancel := context.WithTimeout(t.Context(), claimWithin)
	defer cancel()
	if err := db.writer.PingContext(ctx); err != nil {
		t.Fatalf("a new connection: %v", err)
	}
	if hold.PingContext(ctx) == nil {
		t.Error("two connections hold the right to write")
	}
}

// mustOpen opens a database for a store, and closes the database at the end of the test.
func mustOpen(t *testing.T, dsn, component string) *DB {
	t.Helper()
	db, err := Open(t.Context(), dsn, component)
	testenv.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// TestReadsDoNotClearWriteError fails a write, and expects Trouble to return the error until a write succeeds.
// A locked database still answers reads. The trouble of a read ends with the next success.
func TestReadsDoNotClearWriteError(t *testing.T) {
	db := &DB{component: "history", name: "history.db"}
	for _, c := range []struct {
		failed, success bool // of a write
		lasts           bool
	}{{true, false, true}, {true, true, false}, {false, false, false}, {false, true, false}} {
		_ = db.recordTrouble(nil, true)
		if err := db.recordTrouble(ErrDamaged, c.failed); err == nil || db.Trouble() == nil {
			t.Fatalf("%+v: no trouble after an error", c)
		}
		_ = db.recordTrouble(nil, c.success)
		if (db.Trouble() != nil) != c.lasts {
			t.Errorf("%+v: trouble %v", c, db.Trouble())
		}
	}
}

// TestSuccessfulStatementAllocatesNothing expects no allocation in recordTrouble for a statement without an error. A query calls
// recordTrouble twice.
func TestSuccessfulStatementAllocatesNothing(t *testing.T) {
	db := &DB{component: "history", name: "history.db"}
	if n := testing.AllocsPerRun(100, func() { _ = db.recordTrouble(nil, false) }); n > 0 {
		t.Errorf("%v allocations per success", n)
	}
}
