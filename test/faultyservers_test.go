//go:build linux

package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// A server that loses one result of all, counts one twice, does both within one state, applies two
// of a state in the wrong order, or keeps other words than were sent ends a run with 21, and the
// verdict names the state. The server is the shipped one built with one call more, which no other
// build has; with the call and without a lie it passes.
func TestFaultyServersFailTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("short: another server is built")
	}
	t.Parallel()
	server := buildFaultyServer(t)
	for lie, want := range map[string]string{
		"":      "",
		"drop":  "1 acknowledged and lost",
		"twice": "1 applied more often than acknowledged",
		"again": "1 with other results or in another order",
		"order": "1 with other results or in another order",
		"words": "1 with another status or output",
	} {
		t.Run("lie="+lie, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "report")
			ran := harness.Run(t, []string{"TMPDIR=" + t.TempDir(), "LIE=" + lie}, "load", "run", tinyScenario(t, ""), "--server-binary", server,
				"--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
			rep, err := report.Read(filepath.Join(out, "run.json"))
			if err != nil {
				t.Fatalf("%v: code %d\n%s%s", err, ran.Code, ran.Out, ran.Errors)
			}
			if lie == "" {
				if ran.Code != 0 || !rep.Balance.OK() || rep.Balance.Compared != 8 || rep.Balance.Ordered != 8 {
					t.Errorf("no lie: code %d, %+v\n%s%s", ran.Code, rep.Balance, ran.Out, ran.Errors)
				}
				return
			}
			b := rep.Balance
			if ran.Code != 21 || b.OK() || b.Missing > 0 || b.Compared != 8 || b.Differ != 1 || b.Imbalances != 1 {
				t.Errorf("code %d, want 21; ledger %+v\n%s%s", ran.Code, b, ran.Out, ran.Errors)
			}
			for _, word := range []string{"1 of 8 event states differ from the ledger: " + want, " check ", " number "} {
				if !strings.Contains(ran.Errors, word) {
					t.Errorf("the verdict lacks %q:\n%s", word, ran.Errors)
				}
			}
		})
	}
}

// buildFaultyServer builds a server that may lie, from this tree: its sources lie over the true ones while it is compiled, and stay
// in a temporary folder.
func buildFaultyServer(t *testing.T) string {
	t.Helper()
	compiler := testenv.Program(t, "go", "golang-go", "/usr/local/go/bin")
	dir, event := t.TempDir(), filepath.Join(harness.Root(), "internal", "pipeline", "event")
	apply := filepath.Join(event, "apply.go")
	text, err := os.ReadFile(apply)
	if err != nil {
		t.Fatal(err)
	}
	const at = "\ts.count(from.Stream.Stream, from.Number)\n\t// Within one numbering"
	if strings.Count(string(text), at) != 1 {
		t.Fatalf("%s has no place for the lie any more, which is before\n%s", apply, at)
	}
	lying := filepath.Join(dir, "apply.go")
	if err := os.WriteFile(lying, []byte(strings.Replace(string(text), at, "\tif lie(s, r, from) {\n\t\treturn shard.Applied\n\t}\n"+at, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		apply: lying, filepath.Join(event, "lie.go"): filepath.Join(harness.Root(), "test", "testdata", "liar", "lie.go.txt"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "muster")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), compiler, "build", "-overlay", file, "-o", binary, "./cmd/muster")
	build.Dir = harness.Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server that lies: %v\n%s", err, out)
	}
	return binary
}
