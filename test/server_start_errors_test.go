//go:build linux

package test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver named sqlite

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// unpackBundle returns the files of a debug bundle, by name.
func unpackBundle(t *testing.T, file string) map[string]string {
	t.Helper()
	f := testenv.Value(os.Open(file))(t)
	defer f.Close()
	z := testenv.Value(gzip.NewReader(f))(t)
	out := map[string]string{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		testenv.NoError(t, err)
		data := testenv.Value(io.ReadAll(archive))(t)
		out[path.Base(h.Name)] = string(data)
	}
}

// The debug bundle contains no secret, and the bundle of a hanging server lists the missing parts. Neither contains a
// secret.
func TestDebugBundleContainsNoSecret(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t, "--log-file", filepath.Join(t.TempDir(), "muster.log"))
	s.Args[1] = filepath.Join(s.Data, "muster.log")
	s.Start()
	s.Client()
	take := func(name string, args ...string) (map[string]string, harness.Result) {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		r := harness.Run(t, s.Env(), append([]string{"debug", "bundle", "--admin", s.Admin, "--data", s.Data, "--out", file}, args...)...)
		r.Expect(0)
		return unpackBundle(t, file), r
	}
	all, r := take("well.tar.gz", "--seconds", "1", "--timeout", "40s")
	expectNoTexts(t, r.Errors, "missing")
	for name, want := range map[string]string{
		"README.txt": "go tool pprof", "version.json": `"go":"go1.`, "config.json": `"journal-budget":"4GiB"`, "readyz.txt": "ok",
		"queues.json": `"name":"journal"`, "metrics.txt": "muster_queue_depth", "log.txt": "msg=ready", "logfile.txt": "msg=ready",
		"goroutines.txt": "goroutine ", "status.json": `"byStatus"`, "doctor.txt": "fdatasync", "process.txt": "VmRSS", "client.txt": "muster",
	} {
		expectTexts(t, all[name], want)
	}
	for _, name := range []string{"cpu.pprof", "heap.pprof", "allocs.pprof", "goroutine.pprof", "mutex.pprof", "block.pprof"} {
		z, err := gzip.NewReader(strings.NewReader(all[name]))
		if err != nil {
			t.Errorf("%s is no profile: %v: %.100q", name, err, all[name])
			continue
		}
		body, err := io.ReadAll(z)
		assert(t, err == nil && len(body) >= 50, "%s: %d bytes, %v", name, len(body), err)
	}
	secrets := []string{"four plain test words", "mt1."}
	if key, err := os.ReadFile(filepath.Join(s.Data, "pki", "ca.key")); err == nil {
		secrets = append(secrets, string(bytes.TrimSpace(key)))
	}
	for _, text := range all {
		expectNoTexts(t, text, secrets...)
	}

	s.Pause()
	all, r = take("hung.tar.gz", "--seconds", "1", "--timeout", "1s")
	s.Resume()
	for _, want := range []string{"metrics.txt", "no answer within 1s", "goroutines.txt"} {
		if !strings.Contains(all["README.txt"], want) || !strings.Contains(r.Errors, want) {
			t.Errorf("neither README nor screen may hide that %q:\n%s\n%s", want, all["README.txt"], r.Errors)
		}
	}
	for name, want := range map[string]string{"logfile.txt": "msg=ready", "doctor.txt": "fdatasync", "process.txt": "VmRSS"} {
		expectTexts(t, all[name], want)
	}

	// Of a dead server the bundle has files and the doctor's findings only.
	s.Kill()
	nothing := harness.Run(t, s.Env(), "debug", "bundle", "--admin", s.Admin, "--data", filepath.Join(t.TempDir(), "none"), "--timeout", "1s",
		"--out", filepath.Join(t.TempDir(), "dead.tar.gz"))
	nothing.Expect(0, "connection refused")
}

// A reset of a password ends the sessions that were opened with the old password.
func TestPasswordResetEndsSessions(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	run := func(want int, args ...string) harness.Result {
		t.Helper()
		r := harness.Run(t, s.Env(), args...)
		r.Expect(want)
		return r
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(filepath.Dir(s.Context), name)
		writeFile(t, path, text+"\n")
		return path
	}
	ca := filepath.Join(s.Data, "pki", "ca.crt")
	login := func(want int, password string) harness.Result {
		t.Helper()
		return run(want, "login", "https://"+s.Listen, "--ca", ca, "--password-file", write("typed", password))
	}

	run(0, "auth", "whoami")
	out := run(0, "auth", "reset-password", "--data", s.Data).Out // the password is generated
	made := strings.Fields(out[strings.Index(out, "password ")+len("password "):])[0]
	r := run(5, "auth", "whoami")
	assert(t, strings.Contains(r.Errors, "muster login"), "a session of before: %s", r.Errors)
	login(5, "four plain test words")
	login(0, made)
	run(0, "auth", "whoami")
	run(0, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "another plain password"))
	login(0, "another plain password")
	r = run(2, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "short"))
	assert(t, strings.Contains(r.Errors, "8 characters"), "a short one: %s", r.Errors)
	_, err := os.Stat(filepath.Join(s.Data, "reset-password.json"))
	assert(t, err != nil, "the request lies there still")
	out = run(0, "audit", "--limit", "50").Out
	assert(t, strings.Contains(out, "muster auth reset-password"), "it is not recorded:\n%s", out)
	if r := run(3, "auth", "reset-password", "--data", s.Data, "--user", "amdin"); !strings.Contains(r.Errors, "did you mean admin?") || r.Out != "" {
		t.Errorf("a user who is not there, asked of the server that runs: %s%s", r.Out, r.Errors)
	}
	files, _ := filepath.Glob(filepath.Join(s.Data, "reset-password*"))
	assert(t, len(files) == 0, "%v are left", files)
	run(0, "logout")
	run(5, "auth", "whoami")
	s.Stop()

	run(0, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "set while it was stopped"))
	run(3, "auth", "reset-password", "--data", filepath.Join(s.Data, "none"))
	if r := run(3, "auth", "reset-password", "--data", s.Data, "--user", "amdin"); !strings.Contains(r.Errors, "did you mean admin?") || r.Out != "" {
		t.Errorf("a user who is not there, with the server stopped: %s%s", r.Out, r.Errors)
	}
	s.Start()
	login(5, "another plain password")
	login(0, "set while it was stopped")
	s.Stop()
}

// TestServiceManagerGetsReadiness expects the server to report readiness, status and failed starts to systemd.
func TestServiceManagerGetsReadiness(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	manager := testenv.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}))(t)
	defer manager.Close()
	said := "" // all messages, because the first status may come before READY=1
	hears := func(want string) {
		t.Helper()
		message := make([]byte, 4096)
		for !strings.Contains(said, want) {
			testenv.NoError(t, manager.SetReadDeadline(time.Now().Add(30*time.Second)))
			n, err := manager.Read(message)
			require(t, err == nil, "waiting for %q, heard %q: %v", want, said, err)
			said += string(message[:n]) + "\n"
		}
	}
	s := harness.NewServer(t)
	s.Environ = append(s.Environ, "NOTIFY_SOCKET="+socket)
	s.Launch()
	hears("STATUS=opens " + s.Data)
	hears("READY=1")
	_, ok := s.Ready()
	assert(t, ok, "it said that it is ready, and is not")
	hears("STATUS=ready at " + s.Listen + "; agents connected: 0")
	s.Login()
	s.StartAgent("web01")
	hears("; agents connected: 1")
	second := harness.NewServer(t)
	second.Data, second.Environ = s.Data, s.Environ
	second.Launch()
	hears("is in use by process")
	s.Stop()
	hears("STOPPING=1")
}

// A server refuses to start on an unusable data folder, with the reason and the command to type.
func TestUnusableDataFolderStopsStart(t *testing.T) {
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
			runAsOtherUser(t, s)
			testenv.NoError(t, os.Chown(s.Data, 4_000_001, -1))
		}},
		{"file-of-another-user", 6, true, func(t *testing.T, s *harness.Server) {
			runAsOtherUser(t, s)
			testenv.NoError(t, errors.Join(os.Chown(s.Data, 4_000_002, -1), os.Chown(filepath.Join(s.Data, "LOCK"), 4_000_002, -1)))
		}},
		{"folder-read-only", 9, true, func(t *testing.T, s *harness.Server) {
			if err := syscall.Mount(s.Data, s.Data, "", syscall.MS_BIND, ""); err != nil {
				testenv.Skip(t, "nothing can be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
			}
			t.Cleanup(func() { unmount(t, s.Data) })
			testenv.NoError(t, syscall.Mount("", s.Data, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		}},
		{"journal-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) { editJournalFormat(t, s, "muster journal 1", "muster journal 2") }},
		{"snapshots-of-a-newer-version", 4, false, func(t *testing.T, s *harness.Server) {
			editJournalFormat(t, s, "store snapshots 1", "store snapshots 7")
		}},
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
				testenv.SkipUnlessRoot(t)
			}
			t.Parallel()
			s := whole.Clone(t)
			before := s.Data
			c.spoil(t, s)
			s.Launch()
			s.AwaitExit(c.code)
			compareGoldenFile(t, c.name+".txt", regexp.MustCompile(`this program knows \d+`).ReplaceAllString(outputWithoutLog(s), "this program knows N"), s.Data, "DATA", before, "DATA")
		})
	}
}

// runAsOtherUser makes the test's server run as a user other than root. This user may read the data folder.
func runAsOtherUser(t *testing.T, s *harness.Server) {
	t.Helper()
	data := filepath.Join(newPublicFolder(t), "data")
	testenv.NoError(t, os.Rename(s.Data, data))
	s.Data = data
	s.Wrap = []string{testenv.Program(t, "setpriv", "util-linux"), "--reuid=4000002", "--regid=4000002", "--clear-groups"}
}

// outputWithoutLog returns the output of a server without its log lines.
func outputWithoutLog(s *harness.Server) string {
	var b strings.Builder
	for line := range strings.Lines(s.Log()) {
		if !strings.HasPrefix(line, "time=") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// editJournalFormat replaces a line in the journal's file FORMAT, which has the format version.
func editJournalFormat(t *testing.T, s *harness.Server, old, changed string) {
	t.Helper()
	path := filepath.Join(s.Data, "journal", "FORMAT")
	data := readFile(t, path)
	text, _, ok := strings.Cut(string(data), "crc ")
	require(t, ok && strings.Contains(text, old+"\n"), "no %q in\n%s", old, data)
	text = strings.Replace(text, old+"\n", changed+"\n", 1)
	writeFile(t, path, fmt.Appendf(nil, "%scrc %08x\n", text, crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))))
}

// setNewerSchema sets a database's schema version to the version of a later release.
func setNewerSchema(t *testing.T, s *harness.Server, file, component string) {
	t.Helper()
	db := testenv.Value(sql.Open("sqlite", filepath.Join(s.Data, file)))(t)
	defer db.Close()
	testenv.Value(db.ExecContext(context.Background(), `UPDATE schema_version SET version = 99 WHERE component = ?`, component))(t)
}

// A server whose journal disk is not mounted refuses to start with an empty journal.
func TestMissingJournalDiskStopsStart(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	apart := filepath.Join(filepath.Dir(s.Data), "apart")
	s.Args = []string{"--journal", apart}
	s.Start()
	s.Stop()
	testenv.NoError(t, os.Rename(apart, apart+".gone"))
	s.Launch()
	s.AwaitExit(9)
	compareGoldenFile(t, "journal-missing.txt", regexp.MustCompile(`commits up to \d+`).ReplaceAllString(outputWithoutLog(s), "commits up to N"), s.Data, "DATA", apart, "APART")
	refusal := s.Log()

	// With the disk back, the server has its former state.
	testenv.NoError(t, os.RemoveAll(apart))
	testenv.NoError(t, os.Rename(apart+".gone", apart))
	s.Start()
	s.Stop()

	// With the disk lost, the server continues with the states in the snapshots after the command.
	testenv.NoError(t, os.RemoveAll(apart))
	said := runRepair(t, s, refusal)
	assert(t, regexp.MustCompile(`: commits 1 to \d+ lost`).MatchString(said), "repair says:\n%s", said)
	s.Start()
	expectTexts(t, s.Log(), `"event view is up to date" partitions=256 `)
	s.Stop()
}

// TestRootKeepsFolderOwner runs commands as root on another user's data folder, and expects unchanged file
// owners.
func TestRootKeepsFolderOwner(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	t.Parallel()
	const uid = 4_000_003
	open := newPublicFolder(t)
	s := harness.NewServer(t)
	s.Data = filepath.Join(open, "data")
	s.Context = filepath.Join(open, "context.yaml") // the password's file lies in the same folder
	s.Wrap = []string{testenv.Program(t, "setpriv", "util-linux"), "--reuid=4000003", "--regid=4000003", "--clear-groups"}
	testenv.NoError(t, errors.Join(os.Mkdir(s.Data, 0o700), os.Chown(s.Data, uid, uid)))
	s.Args = append(s.Args, "--admin-password-file", "") // the server generates a password, because it cannot read a file of root
	s.Start()
	as := func(args ...string) string {
		t.Helper()
		r := harness.Run(t, s.Env(), append(args, "--data", s.Data)...)
		r.Expect(0)
		testenv.NoError(t, filepath.WalkDir(s.Data, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // gone meanwhile
			}
			info, err := e.Info()
			assert(t, err != nil || info.Sys().(*syscall.Stat_t).Uid == uid, "after muster %v %s is not the server's", args, path)
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

	testenv.NoError(t, os.Chmod(open, 0o700)) // with the permissions of /root
	s.Try("doctor", "restored", "--data", s.Data).Expect(6, "a parent folder")
}

// compareGoldenFile compares a text with the file testdata/NAME. Parts that differ between machines are replaced first.
func compareGoldenFile(t *testing.T, name, got string, replace ...string) {
	t.Helper()
	got = strings.NewReplacer(replace...).Replace(got)
	path := filepath.Join("testdata", name)
	testenv.Golden(t, path, got)
}

// TestRefusedStartSaysWhatToType starts servers with bad settings, and expects errors with the command to type.
// The message names the setting and the command to type.
func TestRefusedStartSaysWhatToType(t *testing.T) {
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
			compareGoldenFile(t, c.name+".txt", outputWithoutLog(s), replace...)
		})
	}
	why, ok := held.Ready()
	assert(t, ok, "the server that was there first is not ready: %s", why)
	held.Stop()
}
