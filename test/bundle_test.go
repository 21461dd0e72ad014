//go:build linux

package test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/test/harness"
)

// unpackBundle reads a bundle: file name without the folder, content.
func unpackBundle(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[path.Base(h.Name)] = string(data)
	}
}

// Of a server that works the bundle holds everything; of one that hangs, what can be
// had, and why the rest is missing. Neither holds a secret.
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
		if r.Code != 0 {
			t.Fatalf("code %d\n%s%s", r.Code, r.Out, r.Errors)
		}
		return unpackBundle(t, file), r
	}
	all, r := take("well.tar.gz", "--seconds", "1", "--timeout", "40s")
	if strings.Contains(r.Errors, "missing") {
		t.Errorf("of a server that works:\n%s%s", r.Out, r.Errors)
	}
	for name, want := range map[string]string{
		"README.txt": "go tool pprof", "version.json": `"go":"go1.`, "config.json": `"journal-budget":"4GiB"`, "readyz.txt": "ok",
		"queues.json": `"name":"journal"`, "metrics.txt": "muster_queue_depth", "log.txt": "msg=ready", "logfile.txt": "msg=ready",
		"goroutines.txt": "goroutine ", "status.json": `"byStatus"`, "doctor.txt": "fdatasync", "process.txt": "VmRSS", "client.txt": "muster",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s holds no %q: %.300s", name, want, all[name])
		}
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
	for name, text := range all {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds a secret", name)
			}
		}
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
		if !strings.Contains(all[name], want) {
			t.Errorf("%s holds no %q: %.300s", name, want, all[name])
		}
	}

	// A dead one leaves a file, a doctor, and nothing else.
	s.Kill()
	nothing := harness.Run(t, s.Env(), "debug", "bundle", "--admin", s.Admin, "--data", filepath.Join(t.TempDir(), "none"), "--timeout", "1s",
		"--out", filepath.Join(t.TempDir(), "dead.tar.gz"))
	if nothing.Code != 0 || !strings.Contains(nothing.Errors, "connection refused") {
		t.Errorf("of a dead server: code %d\n%s%s", nothing.Code, nothing.Out, nothing.Errors)
	}
}
