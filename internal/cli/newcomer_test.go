package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestWrongWordsNameTheNextCommand runs command lines of newcomers, and expects the command that helps.
func TestWrongWordsNameTheNextCommand(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"explain", "a named set of nodes", 0},
		{"explain asset", "An Asset is an archive", 0},
		{"explain group", "A Group is a named set", 0},
		{"asset list", "no assets in namespace default. All namespaces: -A. Upload one: muster asset add NAME FILE", 0},
		{"describe web01", "for a node: muster describe node web01", 2},
		{"describe chek", "did you mean checks?", 2},
		{"silence web01 --for 1h --reason x", "did you mean --message?", 2},
		{"ack web01/disk", "did you mean: muster event ack web01/disk", 2},
		{"bundle", "did you mean: muster debug bundle", 2},
		{"backup", "copy the data folder of the stopped server", 2},
		{"rollback", "muster rollout undo DIRECTIVE", 2},
		{"audit --limit -1", "expected a number of changes, or 0 for all", 2},
	} {
		x.expectOutput("", c.line, c.code, c.want)
	}
}

// TestRowsWithoutHeadersStandAlone lists events without headers, and expects the note on standard error. Standard
// output has only rows, which scripts read.
func TestRowsWithoutHeadersStandAlone(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.Apply(disk)
	rig.DeclareNodes("default", nil, "web01", "web02")
	for _, node := range []string{"web01", "web02"} {
		rig.RecordResult("default", node, "disk", model.OK, "fine")
	}
	if out := x.expectOutput("", "get events --no-headers --limit 1", 0, "--limit 0"); strings.Count(out, "\n") != 1 {
		t.Errorf("standard output:\n%s", out)
	}
}

// TestAuditLimit lists fewer changes than exist, and expects a note about older changes.
func TestAuditLimit(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	for i := range 3 {
		rig.JoinNode(fmt.Sprintf("web%02d", i), nil)
	}
	rig.Apply(disk)
	x.expectOutput("", "audit --limit 2", 0, "older changes exist: --limit 10")
	if out := x.expectOutput("", "audit --limit 0", 0, "check/disk"); strings.Contains(out, "older changes") {
		t.Error(out)
	}
}
