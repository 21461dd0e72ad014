//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// Simulated Sensu agents register at a server, are asked for their checks, and what they sent
// is what the server holds, in both encodings.
func TestSimulatedSensuAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("two runs of seven seconds")
	}
	t.Parallel()
	listen := harness.Port(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-tls", "off")
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, []byte(`scenario: muster.load/v1
title: A few Sensu agents
target: sensu
seed: 3
agents:
  - name: web
    count: 10
    checks:
      - {name: app, count: 3, interval: 1s, changes: 0.1}
phases:
  - ramp: 2s
  - steady: 4s
  - drain: 10s
`), 0o600); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("P@ssw0rd!"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Login()
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", password)
	for _, more := range [][]string{nil, {"--sensu-json"}, {"--admin", "http://" + s.Admin}} {
		dir := t.TempDir()
		out := s.CLI(append([]string{"load", "run", file, "--target", "sensu", "--server", "ws://" + listen, "--sensu-bridge", "--out", dir}, more...)...)
		t.Logf("%s", out)
		if !strings.Contains(out, "bridge of Muster") {
			t.Errorf("%v: %s", more, out)
		}
		rep, err := report.Read(filepath.Join(dir, "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		// The server tells of itself where it is known.
		profile, _ := os.Stat(filepath.Join(dir, "profiles", "steady-allocs.pprof"))
		if seen := len(more) == 2; (rep.Inside != nil && rep.Inside.Allocs > 0) != seen || (profile != nil) != seen {
			t.Errorf("%v: %+v, files %v", more, rep.Inside, rep.Files)
		}
	}
	if kept := s.Metric("muster_sensu_messages_total", `outcome="kept"`); kept < 100 {
		t.Errorf("%v results kept", kept)
	}
	if events := s.CLI("get", "events"); !strings.Contains(events, "web-00003") {
		t.Errorf("%s", events)
	}
}
