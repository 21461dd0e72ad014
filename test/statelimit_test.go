//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// applyText applies resources.
func applyText(t *testing.T, s *harness.Server, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "declared.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.CLI("apply", "--yes", "-f", file)
}

// A node reports twelve checks and has room for five beside its keepalive: exactly
// these are there, nothing that was acknowledged is missing. A namespace's own limit
// holds for the open session at once.
func TestStateLimit(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--node-states", "6")
	s.Client()
	var checks strings.Builder
	for i := range 12 {
		fmt.Fprintf(&checks, "---\nkind: Check\nmetadata: {name: check-%d}\nspec: {command: 'echo %d', interval: 1s, targets: {groups: [all]}}\n", i, i)
	}
	applyText(t, s, checks.String())
	s.NewAgent("web").Start()
	refused := func() float64 { return s.Metric("muster_session_signals_total", `outcome="states"`) }
	harness.Until(t, time.Minute, "results of seven checks are refused, twice", func() (string, bool) {
		return fmt.Sprint(refused()), refused() >= 14
	})
	harness.Until(t, time.Minute, "the node's event says so", func() (string, bool) {
		got := s.CLI("get", "events", "-o", "wide")
		return got, strings.Contains(got, "limits") && strings.Contains(got, "spec.limits.statesPerNode")
	})
	ofWeb := func() int { return strings.Count(s.CLI("get", "events", "-o", "wide"), "web ") }
	if n := ofWeb(); n != 7 { // the server's own is never refused
		t.Errorf("%d events, want 6 and that of limits", n)
	}
	if out := harness.Run(t, s.Env(), "status"); !strings.Contains(out.Out, "namespace default met a limit") || !strings.Contains(out.Out, "spec.limits.statesPerNode") {
		t.Errorf("status says nothing of it:\n%s", out.Out)
	}
	if out := s.CLI("describe", "namespace", "default"); !strings.Contains(out, "statesPerNode 6, at most 6 on one node; reached ") {
		t.Errorf("describe says nothing of it:\n%s", out)
	}
	if out := s.CLI("describe", "node", "web"); !strings.Contains(out, "statesPerNode 6 (6 used)") {
		t.Errorf("describe of the node says nothing of it:\n%s", out)
	}
	applyText(t, s, "kind: Namespace\nmetadata: {name: default}\nspec: {limits: {statesPerNode: 9}}\n")
	harness.Until(t, time.Minute, "the namespace's limit is used up", func() (string, bool) {
		n := ofWeb()
		return fmt.Sprint(n), n == 10 // and that of limits, which takes none's place
	})
	// A restart with a lower limit forgets nothing.
	s.Stop()
	s.Args = []string{"--node-states", "2"}
	s.Start()
	if n := ofWeb(); n != 10 {
		t.Errorf("%d events after a restart, want 10", n)
	}
}
