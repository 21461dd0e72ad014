//go:build linux

package test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// golden compares a text with testdata/<name>, after the replacements that make it the
// same on every machine.
func golden(t *testing.T, name, got string, replace ...string) {
	t.Helper()
	got = strings.NewReplacer(replace...).Replace(got)
	path := filepath.Join("testdata", name)
	testenv.Golden(t, path, got)
}

// What stops a start: the message names the thing and what to type, the exit code its
// class.
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
			if err := os.WriteFile(file, []byte("# ours\nlisten: 127.0.0.1:1\nkeepalive-intervall: 20s\n"), 0o600); err != nil {
				t.Fatal(err)
			}
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
			if code := s.Wait(30 * time.Second); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			replace := []string{"process " + strconv.Itoa(held.PID()), "process PID", s.Data, "DATA", filepath.Dir(s.Context), "DIR", held.Data, "DATA"}
			for name, address := range map[string]string{"LISTEN": s.Listen, "ADMIN": s.Admin, "PLAIN": s.Plain} {
				if _, port, err := net.SplitHostPort(address); err == nil {
					replace = append(replace, address, name, ":"+port, ":PORT")
				}
			}
			golden(t, c.name+".txt", outputBesideLog(s), replace...)
		})
	}
	if why, ok := held.Ready(); !ok {
		t.Errorf("the server that was there first is not ready: %s", why)
	}
	held.Stop()
}
