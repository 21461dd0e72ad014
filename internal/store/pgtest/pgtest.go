//go:build unix

// Package pgtest runs a real PostgreSQL for tests, from Debian's package: one server
// per test process, on a Unix socket in a temporary folder, with a fresh database
// per call.
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
	"sync/atomic"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver named pgx

	"github.com/muster-fleet/muster/internal/testenv"
)

// Server is a running PostgreSQL.
type Server struct {
	dir  string
	next atomic.Int64
}

// Start runs PostgreSQL until the test (or the whole run, from TestMain's subtests)
// ends, or leaves the test out where it is not installed.
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
		testenv.LeftOut(t, err.Error(), "run the tests as an ordinary user")
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(filepath.Dir(initdb), name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	data := filepath.Join(dir, "data")
	run("initdb", "-D", data, "-U", "muster", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	run("pg_ctl", "-D", data, "-w", "-l", filepath.Join(dir, "log"), "-o",
		fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories='%s' -c max_connections=60 -c shared_buffers=32MB", dir), "start")
	t.Cleanup(func() { run("pg_ctl", "-D", data, "-m", "immediate", "stop") })
	return &Server{dir: dir}
}

// unprivileged lets root run PostgreSQL as the user postgres, which it insists on.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres")
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// Database makes an empty database and returns its address.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	admin, err := sql.Open("pgx", s.dsn("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := fmt.Sprintf("test%d", s.next.Add(1))
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return s.dsn(name)
}

func (s *Server) dsn(name string) string {
	return "postgres:///" + name + "?user=muster&host=" + url.QueryEscape(s.dir)
}
