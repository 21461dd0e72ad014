//go:build linux

package test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite" // the driver named sqlite

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Data folders that a server cannot or must not use: the message names the thing, why, and what to type.
func TestRefusedDataFolders(t *testing.T) {
	t.Parallel()
	whole := harness.NewServer(t)
	whole.Start()
	whole.Stop()
	for _, c := range []struct {
		name  string
		code  int
		root  bool
		spoil func(t *testing.T, s *harness.Server)
	}{
		{"folder-of-another-user", 6, true, func(t *testing.T, s *harness.Server) {
			runAsOther(t, s)
			testenv.NoError(t, os.Chown(s.Data, 4_000_001, -1))
		}},
		{"file-of-another-user", 6, true, func(t *testing.T, s *harness.Server) {
			runAsOther(t, s)
			testenv.NoError(t, errors.Join(os.Chown(s.Data, 4_000_002, -1), os.Chown(filepath.Join(s.Data, "LOCK"), 4_000_002, -1)))
		}},
		{"folder-read-only", 9, true, func(t *testing.T, s *harness.Server) {
			if err := syscall.Mount(s.Data, s.Data, "", syscall.MS_BIND, ""); err != nil {
				testenv.LeftOut(t, "nothing can be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
			}
			t.Cleanup(func() { unmount(t, s.Data) })
			testenv.NoError(t, syscall.Mount("", s.Data, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		}},
		{"journal-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { editFormat(t, s, "muster journal 1", "muster journal 2") }},
		{"snapshots-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { editFormat(t, s, "store snapshots 1", "store snapshots 7") }},
		{"intent-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { setNewerSchema(t, s, "intent.db", "intent") }},
		{"history-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { setNewerSchema(t, s, "history.db", "history") }},
		{"disk-reports-errors", 9, false, func(t *testing.T, s *harness.Server) {
			s.Wrap = []string{
				testenv.Program(t, "strace", "strace"), "-D", "-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"), "-e", "signal=none",
				"-e", "trace=fdatasync", "-P", filepath.Join(s.Data, "journal", "00000000000000000001.log"), "-e", "inject=fdatasync:error=EIO",
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				testenv.Root(t)
			}
			t.Parallel()
			s := whole.Clone()
			before := s.Data
			c.spoil(t, s)
			s.Launch()
			s.AwaitExit(c.code)
			golden(t, c.name+".txt", regexp.MustCompile(`this program knows \d+`).ReplaceAllString(outputBesideLog(s), "this program knows N"), s.Data, "DATA", before, "DATA")
		})
	}
}

// runAsOther lets the server run as user 4000002, on its data folder at a place that this one may look into.
func runAsOther(t *testing.T, s *harness.Server) {
	t.Helper()
	data := filepath.Join(openFolder(t), "data")
	testenv.NoError(t, os.Rename(s.Data, data))
	s.Data = data
	s.Wrap = []string{testenv.Program(t, "setpriv", "util-linux"), "--reuid=4000002", "--regid=4000002", "--clear-groups"}
}

// outputBesideLog is what a server said beside its log.
func outputBesideLog(s *harness.Server) string {
	var b strings.Builder
	for line := range strings.Lines(s.Log()) {
		if !strings.HasPrefix(line, "time=") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// editFormat changes a line of the journal's FORMAT.
func editFormat(t *testing.T, s *harness.Server, old, changed string) {
	t.Helper()
	path := filepath.Join(s.Data, "journal", "FORMAT")
	data := readFile(t, path)
	text, _, ok := strings.Cut(string(data), "crc ")
	require(t, ok && strings.Contains(text, old+"\n"), "no %q in\n%s", old, data)
	text = strings.Replace(text, old+"\n", changed+"\n", 1)
	writeFile(t, path, fmt.Appendf(nil, "%scrc %08x\n", text, crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))))
}

func setNewerSchema(t *testing.T, s *harness.Server, file, component string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.Data, file))
	testenv.NoError(t, err)
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), `UPDATE schema_version SET version = 99 WHERE component = ?`, component); err != nil {
		t.Fatal(err)
	}
}

// The journal lies apart, and its disk is not there: no new journal is begun in the empty place, until somebody types
// that.
func TestMissingJournalDisk(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	apart := filepath.Join(filepath.Dir(s.Data), "apart")
	s.Args = []string{"--journal", apart}
	s.Start()
	s.Stop()
	testenv.NoError(t, os.Rename(apart, apart+".gone"))
	s.Launch()
	s.AwaitExit(9)
	golden(t, "journal-missing.txt", regexp.MustCompile(`commit \d+`).ReplaceAllString(outputBesideLog(s), "commit N"), s.Data, "DATA", apart, "APART")
	refusal := s.Log()

	// The disk is back: all is as before.
	testenv.NoError(t, os.RemoveAll(apart))
	testenv.NoError(t, os.Rename(apart+".gone", apart))
	s.Start()
	s.Stop()

	// It is lost: a new one.
	testenv.NoError(t, os.RemoveAll(apart))
	said := runRepair(t, s, refusal)
	assert(t, strings.Contains(said, "commit 1 and all after it lost"), "repair says:\n%s", said)
	s.Start()
	expectTexts(t, s.Log(), "or of another server")
	s.Stop()
}

// What root types on the machine of a server that is not root's leaves nothing that the server cannot read.
func TestRootKeepsFolderOwner(t *testing.T) {
	testenv.Root(t)
	t.Parallel()
	const uid = 4_000_003
	open := openFolder(t)
	s := harness.NewServer(t)
	s.Data = filepath.Join(open, "data")
	s.Context = filepath.Join(open, "context.yaml") // beside it the password's file
	s.Wrap = []string{testenv.Program(t, "setpriv", "util-linux"), "--reuid=4000003", "--regid=4000003", "--clear-groups"}
	testenv.NoError(t, errors.Join(os.Mkdir(s.Data, 0o700), os.Chown(s.Data, uid, uid)))
	s.Args = append(s.Args, "--admin-password-file", "") // one is made: the file here is root's
	s.Start()
	as := func(args ...string) string {
		t.Helper()
		r := harness.Run(t, s.Env(), append(args, "--data", s.Data)...)
		r.Expect(0)
		testenv.NoError(t, filepath.WalkDir(s.Data, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // gone meanwhile
			}
			if info, err := e.Info(); err == nil && info.Sys().(*syscall.Stat_t).Uid != uid {
				t.Errorf("after muster %v %s is not the server's", args, path)
			}
			return nil
		}))
		return r.Out
	}
	expectTexts(t, as("auth", "reset-password"), "muster login")
	s.Stop()
	as("auth", "reset-password")
	as("doctor", "restored")
	as("doctor", "repair")
	s.Start()
	s.Stop()

	testenv.NoError(t, os.Chmod(open, 0o700)) // as /root is
	s.Try("doctor", "restored", "--data", s.Data).Expect(6, "a folder above it")
}

// golden compares a text with testdata/<name>, after the replacements that make it the same on every machine.
func golden(t *testing.T, name, got string, replace ...string) {
	t.Helper()
	got = strings.NewReplacer(replace...).Replace(got)
	path := filepath.Join("testdata", name)
	testenv.Golden(t, path, got)
}

// What stops a start: the message names the thing and what to type, the exit code its class.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	held := harness.StartServer(t)
	for _, c := range []struct {
		name string
		code int
		args func(s *harness.Server)
	}{
		{"port-taken", 9, func(s *harness.Server) { s.Listen = held.Listen }},
		{"admin-port-taken", 9, func(s *harness.Server) { s.Admin = held.Admin }},
		{"folder-locked", 4, func(s *harness.Server) { s.Data = held.Data }},
		{"unknown-flag", 2, func(s *harness.Server) { s.Args = []string{"--keepalive-intervall", "20s"} }},
		{"unknown-setting", 2, func(s *harness.Server) {
			file := filepath.Join(filepath.Dir(s.Context), "muster.yaml")
			writeFile(t, file, "# ours\nlisten: 127.0.0.1:1\nkeepalive-intervall: 20s\n")
			s.Args = []string{"--config", file}
		}},
		{"settings-that-disagree", 2, func(s *harness.Server) {
			s.Args = []string{"--keepalive-timeout", "5s", "--journal-budget", "1MiB", "--log-level", "loud"}
		}},
		{"plain-listener-for-all", 2, func(s *harness.Server) { s.Plain = "0.0.0.0:18445" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := harness.NewServer(t)
			c.args(s)
			s.Launch()
			s.AwaitExit(c.code)
			replace := []string{"process " + strconv.Itoa(held.PID()), "process PID", s.Data, "DATA", filepath.Dir(s.Context), "DIR", held.Data, "DATA"}
			for name, address := range map[string]string{"LISTEN": s.Listen, "ADMIN": s.Admin, "PLAIN": s.Plain} {
				if _, port, err := net.SplitHostPort(address); err == nil {
					replace = append(replace, address, name, ":"+port, ":PORT")
				}
			}
			golden(t, c.name+".txt", outputBesideLog(s), replace...)
		})
	}
	why, ok := held.Ready()
	assert(t, ok, "the server that was there first is not ready: %s", why)
	held.Stop()
}
