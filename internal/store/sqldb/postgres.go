package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// oldestPostgres is the oldest supported major version.
const oldestPostgres = 13

const (
	connectWithin = 10 * time.Second
	// claimWithin bounds the wait for the writer lock: PostgreSQL may not have noticed yet that a killed
	// server is gone.
	claimWithin = 3 * time.Second
)

// openPostgres opens the PostgreSQL database of a store, such as intent or history.
func openPostgres(ctx context.Context, dsn, component string) (*DB, error) {
	db := &DB{Dialect: PostgreSQL, component: component, name: "PostgreSQL"}
	if u, err := url.Parse(dsn); err == nil {
		db.name = u.Redacted()
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "%s: %w", db.flagName(), err).
			WithHint("expected postgres://USER:PASSWORD@HOST:5432/DATABASE")
	}
	me, err := applicationName(component)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"application_name": me,
		// PostgreSQL must soon release the lock of a server that vanished from the network.
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
	} {
		if _, set := cfg.RuntimeParams[name]; !set || name == "application_name" {
			cfg.RuntimeParams[name] = value
		}
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectWithin
		cfg.DialFunc = (&net.Dialer{Timeout: connectWithin, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}).DialContext
	}
	c := writerLock{component: component, me: me, setting: db.flagName()}
	db.reader = stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(checkServer))
	db.reader.SetMaxOpenConns(8)
	db.writer = stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if err := checkServer(ctx, conn); err != nil {
			return err
		}
		return c.acquire(ctx, conn)
	}))
	db.writer.SetMaxOpenConns(1)
	for _, pool := range []*sql.DB{db.writer, db.reader} {
		if err := pool.PingContext(ctx); err != nil {
			_ = db.Close()
			return nil, fmt.Errorf("open database %s: %w", db.name, db.recordTrouble(err, false))
		}
	}
	return db, nil
}

// applicationName returns the application_name under which PostgreSQL shows the connections of the server
// process. Operators recognize the process's database sessions by it. PostgreSQL keeps 63 bytes.
func applicationName(component string) (string, error) {
	var own [4]byte
	if _, err := rand.Read(own[:]); err != nil {
		return "", fmt.Errorf("create a name for the database connection: %w", err)
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("muster %s: process %d on %.20s [%s]", component, os.Getpid(), host, hex.EncodeToString(own[:])), nil
}

// checkServer returns an error if PostgreSQL has a version, encoding or setting that does not suit Muster.
func checkServer(_ context.Context, conn *pgx.Conn) error {
	if err := checkServerVersion(conn.PgConn().ParameterStatus("server_version")); err != nil {
		return err
	}
	if encoding := conn.PgConn().ParameterStatus("server_encoding"); encoding != "UTF8" {
		return model.Errorf(model.Invalid, "the database has encoding %s, Muster needs UTF8", encoding).
			WithHint("create a database: createdb -E UTF8 -T template0 muster")
	}
	return nil
}

// checkServerVersion returns an error for a PostgreSQL older than the oldest supported version.
func checkServerVersion(version string) error {
	major := 0
	if _, err := fmt.Sscan(version, &major); err != nil {
		return nil // another product with PostgreSQL's protocol and its own version numbers
	}
	if major < oldestPostgres {
		return model.Errorf(model.Invalid, "PostgreSQL %s is too old, Muster needs %d or later", version, oldestPostgres).
			WithHint("upgrade PostgreSQL (pg_upgrade), or omit the setting: SQLite is built in")
	}
	return nil
}

// writerLock is a PostgreSQL lock that lets only one server write to the database. Each new connection takes it anew.
type writerLock struct{ component, me, setting string }

var errDatabaseTaken = errors.New("another server uses this database")

const claimKey = `hashtextextended('muster ' || $1 || ' ' || current_schema(), 0)`

// acquire locks the database for a new writing connection of the server. The error is errDatabaseTaken if another
// server has the lock.
func (c *writerLock) acquire(ctx context.Context, conn *pgx.Conn) error {
	deadline := time.Now().Add(claimWithin)
	for {
		var got bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+claimKey+`)`, c.component).Scan(&got); err != nil || got {
			return err
		}
		pid, holder, where, since, err := c.holder(ctx, conn)
		if err != nil {
			return err
		}
		if holder == c.me { // a dead connection of this process still has the lock
			if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid); err != nil {
				return err
			}
		}
		if time.Now().After(deadline) {
			return model.Errorf(model.Conflict, "%w: %s%s holds the lock of the database, since %s", errDatabaseTaken, holder, where, since.UTC().Format(time.RFC3339)).
				WithHint("stop that server, or use another database: --%s postgres://…", c.setting)
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// holder finds out which database connection has the lock of the database. The text is empty if no session has it.
func (c *writerLock) holder(ctx context.Context, conn *pgx.Conn) (pid int32, name, where string, since time.Time, err error) {
	err = conn.QueryRow(ctx, `SELECT a.pid, COALESCE(NULLIF(a.application_name, ''), 'unknown'), COALESCE(' at ' || host(a.client_addr), ''), COALESCE(a.backend_start, now())
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND ((l.classid::bigint << 32) | l.objid::bigint) = `+claimKey, c.component).Scan(&pid, &name, &where, &since)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", "", time.Now(), nil
	}
	return pid, name, where, since, err
}
