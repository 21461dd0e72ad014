package cli_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// TestGetAcceptsKubectlOptions runs muster get with options of kubectl, and expects output in the same form.
// Several kinds and -o name are such options.
func TestGetAcceptsKubectlOptions(t *testing.T) {
	rig, x := newNamedFleet(t)
	rig.RecordResult("default", "web01", "disk", model.OK, "DISK OK")
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"get checks -A -o name", "check/disk\ncheck/shared/load\ncheck/team-a/disk\n", 0},
		{"get nodes,checks -o name", "node/team-a\nnode/web01\ncheck/disk\n", 0},
		{"get event web01/disk -o name", "event/web01/disk\n", 0},
		{"auth user list -o name", "admin\n", 0},
		{"auth token create --user ci -m a\x1b[2Jb", "the note contains a line break or another control character", 2},
		{"node token -m a\x07b", "the note contains a line break or another control character", 2},
		{"node list -o name", "node/team-a\nnode/web01\n", 0},
		{"get nodes -A -o jsonpath={.items[*].metadata.name}", "team-a web01 db01.example.org web01", 0},
		{"get node web01 -o jsonpath=.metadata.name", "web01", 0},
		{"get events -A -o jsonpath={.items[?(@.status==0)].node}", "web01", 0},
		{"get nodes -o jsonpath={.items[", "jsonpath {.items[: ", 2},
		{"get nodes -A -o jsonpath={.items[*].metadata.name} --sort-by .metadata.name", "db01.example.org team-a web01 web01", 0},
		{"get nodes --sort-by .metadata.name", "NAME", 0},
		{"get checks -A --no-headers --sort-by {.metadata.namespace}", "default", 0},
		{"get checks --sort-by .nope", "--sort-by .nope: no row has this field", 2},
		{"get checks,nodes web01", "a list of several kinds cannot be combined with names or -w", 2},
		{"get checks,nope", `unknown kind "nope"`, 2},
		{"get checks,nodes -o json", `"checks": [`, 0},
		{"whoami", "did you mean: ./bin/muster auth whoami", 2},
	} {
		x.program = "./bin/muster"
		out := x.expectOutput("", c.line, c.code, c.want)
		if strings.Contains(c.line, "-o name") && out != c.want {
			t.Errorf("%s: %q, want %q", c.line, out, c.want)
		}
		if strings.Contains(c.line, "--no-headers") && strings.Contains(out, "NAME") {
			t.Errorf("%s:\n%s", c.line, out)
		}
	}
	x.expectOutput("", "status", 0, "./bin/muster ")
	x.expectOutput("", "auth token create --user ci", 0, "./bin/muster auth token revoke")
	x.expectOutput("", "node token", 0)
	for list, revoke := range map[string]string{`auth token list --where row.user=="ci"`: "auth token revoke", "node token list": "node token delete"} {
		ids := x.expectOutput("", list+" -o name", 0)
		if ids == "" {
			t.Errorf("%s has no rows", list)
		}
		for id := range strings.Lines(ids) {
			x.expectOutput("", revoke+" "+strings.TrimSpace(id), 0, strings.TrimSpace(id))
		}
	}
	names := x.expectOutput("", "get events -A -o name", 0)
	for name := range strings.Lines(names) {
		x.expectOutput("", "describe "+strings.TrimSpace(name), 0)
	}
}

// TestLabelAndAnnotate expects the commands label and annotate to set, replace and remove labels and
// annotations.
func TestLabelAndAnnotate(t *testing.T) {
	_, x := newNamedFleet(t)
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"label node team-a/web01 env=prod tier=db", "node/team-a/web01 updated", 0},
		{"label node/team-a/web01 env=test", `the label env of node/team-a/web01 already has the value "prod"`, 4},
		{"label node team-a/web01 env=test tier- --overwrite", "updated", 0},
		{"get node team-a/web01 -o jsonpath={.metadata.labels}", `{"env":"test"}`, 0},
		{"annotate check disk ticket=OPS-42", "check/disk updated", 0},
		{"get check disk -o jsonpath={.metadata.annotations.ticket}", "OPS-42", 0},
		{"label node web01", "KEY=VALUE is missing", 2},
		{"label node web01 env", "KEY=VALUE is missing", 2},
		{"label node web01 a=b env", "expected KEY=VALUE, or KEY- to remove a label", 2},
		{"label nodes web01 team-a rack=1", "node/web01 updated\nnode/team-a updated", 0},
		{"label node/web01 check/disk owner=ops", "node/web01 updated\ncheck/disk updated", 0},
		{"label checks -l owner=ops owner=dev --overwrite", "check/disk updated", 0},
		{"label checks -A -l owner=dev owner- row=9 --dry-run", "check/disk would be updated", 0},
		{"label checks -A --all row=9", "check/team-a/disk updated", 0},
		{"get checks -A -l row=9 -o name", "check/disk\ncheck/shared/load\ncheck/team-a/disk\n", 0},
		{"label checks disk nope row=10 --overwrite", "check/nope does not exist", 3},
		{"label checks -A --all row=10", `the label row of check/disk already has the value "9"`, 4},
		{"get checks -A -l row=10", "no checks match", 0},
		{"label nodes -l rack=7 a=b", "no nodes with labels rack=7 in namespace default: nothing to change", 0},
		{"label nodes web01 --all a=b", "resource names cannot be combined with --all or -l", 2},
		{"label nodes a=b", "the name of the object is missing", 2},
		{"label a=b web01", "KEY=VALUE is missing", 2},
		{"annotate checks -A -l !nope ticket=7 --overwrite", "check/team-a/disk updated", 0},
	} {
		x.expectOutput("", c.line, c.code, c.want)
	}
}

// TestContexts lists, switches and deletes the saved logins of two servers, and expects no token in the output.
func TestContexts(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	delete(x.env, "MUSTER_SERVER")
	delete(x.env, "MUSTER_TOKEN")
	x.expectOutput("", "context list", 0, "no contexts. Log in")
	x.writeFile("context.yaml", "server: https://a.example.org:8443\ntoken: one\nuser: ann\n")
	x.writeFile("context.yaml.b.example.org-8443", "server: https://b.example.org:8443\ntoken: two\nuser: ben\n")
	x.expectOutput("", "context list", 0, "*       a.example.org-8443", "-       b.example.org-8443")
	x.expectOutput("", "context use c.example.org-8443", 3, "context c.example.org-8443 does not exist")
	x.expectOutput("", "context use b.example.org-8443", 0, "context b.example.org-8443 is in use: https://b.example.org:8443")
	out := x.expectOutput("", "context list", 0, "*       b.example.org-8443", "-       a.example.org-8443")
	if strings.Contains(out, "one") || strings.Contains(out, "two") {
		t.Errorf("a token is shown:\n%s", out)
	}
	x.expectOutput("", "context delete a.example.org-8443", 0, "deleted")
	if out := x.expectOutput("", "context list -o json", 0); strings.Contains(out, "a.example.org") || strings.Contains(out, "two") {
		t.Errorf("after the deletion:\n%s", out)
	}
}

// TestExamplesOfExplainAreValid checks the example of each kind in muster explain with the linter.
func TestExamplesOfExplainAreValid(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	for _, k := range kind.All().Kinds() {
		out := x.expectOutput("", "explain "+strings.ToLower(k.Name), 0)
		_, rest, found := strings.Cut(out, "\nExample (muster apply -f FILE):\n")
		example, _, _ := strings.Cut(rest, "\nFields (* required):")
		if !found || !strings.Contains(out[:len(out)-len(rest)], k.Name) {
			t.Errorf("explain %s does not begin with an example:\n%s", k.Name, out)
			continue
		}
		x.expectOutput(strings.ReplaceAll("\n"+example, "\n  ", "\n"), "lint -", 0, "no errors")
	}
}
