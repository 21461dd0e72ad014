//go:build unix

// Package pgtest runs a real PostgreSQL for tests, from Debian's package: one server per test
// process, on a Unix socket in a temporary folder, with a fresh database per call.
package pgtest

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver named pgx

	"github.com/muster-fleet/muster/internal/testenv"
)

// Server is a running PostgreSQL server of a test.
type Server struct {
	bin, dir string
	attr     *syscall.SysProcAttr
	next     atomic.Int64
	up       bool
}

// Start starts PostgreSQL for a test, and stops PostgreSQL at the end of the test. It skips the test if PostgreSQL is
// not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	initdb := testenv.Program(t, "initdb", "postgresql", "/usr/lib/postgresql/*/bin")
	dir, err := os.MkdirTemp("", "pg") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr, err := unprivileged(dir)
	if err != nil {
		testenv.Skip(t, err.Error(), "run the tests as an ordinary user")
	}
	s := &Server{bin: filepath.Dir(initdb), dir: dir, attr: attr}
	s.run(t, "initdb", "-D", s.data(), "-U", "muster", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	t.Cleanup(func() {
		if s.up {
			s.signal(syscall.SIGCONT)
			s.run(t, "pg_ctl", "-D", s.data(), "-m", "immediate", "stop")
		}
	})
	s.Restart(t)
	return s
}

// data returns the path of the server's data folder.
func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run runs a PostgreSQL command such as initdb and ends the test on an error.
func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Restart restarts the server after Stop.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data(), "-w", "-l", filepath.Join(s.dir, "log"), "-o",
		fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories='%s' -c max_connections=60 -c shared_buffers=32MB "+
			"-c fsync=off -c full_page_writes=off", s.dir), "start") // only the server process is stopped, never its machine
	s.up = true
}

// Stop stops the server and cuts all connections, as an upgrade of PostgreSQL does.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data(), "-m", "fast", "-w", "stop")
	s.up = false
}

// Pause suspends all processes of the server until Resume, as if the database stalled.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues the processes that Pause suspended.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// signal sends an operating system signal to all processes of PostgreSQL, the main process first. The order prevents
// missed children.
func (s *Server) signal(sig syscall.Signal) {
	text, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return
	}
	_ = syscall.Kill(pid, sig)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, word := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(word); err == nil {
			_ = syscall.Kill(child, sig)
		}
	}
}

// unprivileged returns settings by which a PostgreSQL command runs as the user postgres instead of root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to run as root, and the user postgres does not exist on this machine")
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// Database creates an empty database and returns its data source name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.next.Add(1))
	s.Exec(t, s.DSN("postgres", "muster", ""), "CREATE DATABASE "+name)
	return s.DSN(name, "muster", "")
}

// Exec runs an SQL statement on a separate connection, not on the tested program's.
func (s *Server) Exec(t testing.TB, dsn, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// RequirePasswords makes the server require passwords from all users but muster.
func (s *Server) RequirePasswords(t testing.TB) {
	t.Helper()
	rules := "local all muster trust\nlocal all all scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, "pg_ctl", "-D", s.data(), "reload")
}

// DSN returns the data source name (DSN) of a database for a user.
func (s *Server) DSN(database, user, password string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + database, RawQuery: "host=" + url.QueryEscape(s.dir)}
	u.User = url.User(user)
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}
