//go:build linux

package test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// unpackBundle reads a bundle: file name without the folder, content.
func unpackBundle(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	testenv.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	testenv.NoError(t, err)
	out := map[string]string{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		testenv.NoError(t, err)
		data, err := io.ReadAll(archive)
		testenv.NoError(t, err)
		out[path.Base(h.Name)] = string(data)
	}
}

// Of a server that works the bundle holds everything; of one that hangs, what can be had, and why the rest is
// missing. Neither holds a secret.
func TestDebugBundle(t *testing.T) {
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
	refuseTexts(t, r.Errors, "missing")
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
		if body, err := io.ReadAll(z); err != nil || len(body) < 50 {
			t.Errorf("%s: %d bytes, %v", name, len(body), err)
		}
	}
	secrets := []string{"four plain test words", "mt1."}
	if key, err := os.ReadFile(filepath.Join(s.Data, "pki", "ca.key")); err == nil {
		secrets = append(secrets, string(bytes.TrimSpace(key)))
	}
	for _, text := range all {
		refuseTexts(t, text, secrets...)
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

	// A dead one leaves a file, a doctor, and nothing else.
	s.Kill()
	nothing := harness.Run(t, s.Env(), "debug", "bundle", "--admin", s.Admin, "--data", filepath.Join(t.TempDir(), "none"), "--timeout", "1s",
		"--out", filepath.Join(t.TempDir(), "dead.tar.gz"))
	nothing.Expect(0, "connection refused")
}

// A forgotten password is set anew, whether the server runs or not; sessions made with the old one end, and login
// opens one with the new.
func TestPasswordReset(t *testing.T) {
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
	out := run(0, "auth", "reset-password", "--data", s.Data).Out // one is made
	made := strings.Fields(out[strings.Index(out, "password ")+len("password "):])[0]
	if r := run(5, "auth", "whoami"); !strings.Contains(r.Errors, "muster login") {
		t.Errorf("a session of before: %s", r.Errors)
	}
	login(5, "four plain test words")
	login(0, made)
	run(0, "auth", "whoami")
	run(0, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "another plain password"))
	login(0, "another plain password")
	if r := run(2, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "short")); !strings.Contains(r.Errors, "8 characters") {
		t.Errorf("a short one: %s", r.Errors)
	}
	if _, err := os.Stat(filepath.Join(s.Data, "reset-password.json")); err == nil {
		t.Error("the request lies there still")
	}
	if out := run(0, "audit", "--limit", "50").Out; !strings.Contains(out, "muster auth reset-password") {
		t.Errorf("it is not recorded:\n%s", out)
	}
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

// The service manager hears when the server is ready, how it is, and why it did not start.
func TestServiceManagerNotification(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	testenv.NoError(t, err)
	defer manager.Close()
	hears := func(want string) {
		t.Helper()
		message := make([]byte, 4096)
		for said := ""; !strings.Contains(said, want); {
			testenv.NoError(t, manager.SetReadDeadline(time.Now().Add(30*time.Second)))
			n, err := manager.Read(message)
			require(t, err == nil, "waiting for %q, heard %q: %v", want, said, err)
			said = string(message[:n])
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
