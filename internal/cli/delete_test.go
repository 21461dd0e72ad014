package cli_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestKindSlashName writes KIND/NAME for KIND NAME, and files without -f.
func TestKindSlashName(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", nil, "web01")
	x.file("disk.yaml", disk)
	for _, line := range []string{
		"lint DIR/disk.yaml", "plan DIR/disk.yaml", "diff DIR/disk.yaml", "apply DIR/disk.yaml", "get check/disk", "get handler/notebook -o json", "describe check/disk",
		"audit check/disk", "edit check/disk", "delete check/disk handler/notebook --dry-run", "delete check/disk handler/notebook",
	} {
		if _, code := x.run("", line); code != 0 {
			t.Errorf("%s: code %d\n%s", line, code, x.text.String())
		}
	}
}

// TestDeleteTransaction deletes all resources or none; the guard counts their nodes together.
func TestDeleteTransaction(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", nil, "web01", "web02")
	rig.Apply("kind: Check\nmetadata: {name: a}\nspec: {targets: {nodes: [web01]}, interval: 60s, command: x}\n---\nkind: Check\nmetadata: {name: b}\nspec: {targets: {nodes: [web02]}, interval: 60s, command: x}\n")
	if out, code := x.run("", "delete checks a c b"); code != model.NotFound.Exit() || out != "" {
		t.Errorf("code %d: %s", code, out)
	}
	if _, code := x.run("", "delete checks a b --max-affected 1"); code != model.Guarded.Exit() || !strings.Contains(x.text.String(), "look at it with --dry-run") {
		t.Errorf("code %d\n%s", code, x.text.String())
	}
	if out, code := x.run("", "delete checks a b --dry-run"); code != 0 || !strings.HasPrefix(out, "check/a would be deleted\ncheck/b would be deleted\n") || !strings.Contains(out, "nothing was changed; 2 nodes") {
		t.Errorf("code %d: %s", code, out)
	}
	if out, _ := x.run("", "get checks"); !strings.Contains(out, "a ") || !strings.Contains(out, "b ") {
		t.Errorf("something is gone: %s", out)
	}
	if out, code := x.run("", "delete checks a b"); code != 0 || out != "check/a deleted\ncheck/b deleted\n" {
		t.Errorf("code %d: %s", code, out)
	}
	if out, _ := x.run("", "audit --limit 2"); !strings.Contains(out, "changed 2 resources") {
		t.Errorf("two changes: %s", out)
	}
}

// TestDeleteSelections deletes by labels, by a file and by --all; a namespace must be empty, or goes with --cascade.
func TestDeleteSelections(t *testing.T) {
	rig, x := openTerminal(t)
	x.file("disk.yaml", disk)
	x.file("team.yaml", "kind: Namespace\nmetadata: {name: team}\nspec: {}\n---\nkind: Check\nmetadata: {name: ssh, namespace: team}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}\n")
	rig.Apply("kind: Namespace\nmetadata: {name: demo}\nspec: {}\n---\nkind: Check\nmetadata: {name: ssh, namespace: demo}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}\n")
	rig.Nodes("default", map[string]string{"env": "prod"}, "web01")
	rig.Nodes("default", map[string]string{"env": "test"}, "web02", "web03")
	rig.Nodes("demo", nil, "d1", "d2", "d3")
	for _, c := range []struct {
		line string
		code model.Class
		want string
	}{
		{"delete", model.Invalid, "muster delete KIND NAME"}, {"delete nodes", model.Invalid, "the name is missing"},
		{"delete nodes d1 --all", model.Invalid, "exclude"}, {"delete -f DIR/disk.yaml nodes", model.Invalid, "-f names the resources"},
		{"delete events --all", model.Invalid, "by name"}, {"delete event web01/disk --dry-run", model.Invalid, "have no --dry-run"},
		{"delete node web01 --cascade", model.Invalid, "for namespaces"}, {"delete nodes --all -l env=test", model.Invalid, "exclude each other"},

		{"delete nodes -l env=test --dry-run", 0, "node/web02 would be deleted\nnode/web03 would be deleted\n"},
		{"delete nodes -l env=test", 0, "node/web02 deleted\nnode/web03 deleted\n"},
		{"delete nodes -l env=test", 0, "no nodes with labels env=test in namespace default: nothing to delete\n"},
		{"get nodes", 0, "web01"},

		{"delete -f DIR/disk.yaml", model.NotFound, "there is no check/disk"}, {"apply -f DIR/disk.yaml", 0, "created"},
		{"delete -f DIR/disk.yaml", 0, "check/disk deleted\nhandler/notebook deleted\n"},
		{"apply -f DIR/team.yaml", 0, "created"}, {"delete -f DIR/team.yaml", 0, "check/team/ssh deleted\ngroup/team/all deleted\nnamespace/team deleted\n"},

		{"delete namespace demo", model.Conflict, "muster delete nodes -n demo --all --yes"},
		{"delete nodes -n demo --all --max-affected 2", model.Guarded, "3 nodes"},
		{"delete nodes -n demo --all --yes", 0, "node/demo/d1 deleted\nnode/demo/d2 deleted\nnode/demo/d3 deleted\n"},
		{"delete namespace demo", model.Conflict, "muster delete checks -n demo --all --yes"},
		{"delete namespace demo --cascade --dry-run", 0, "namespace/demo would be deleted"},
		{"delete namespace demo --cascade", 0, "check/demo/ssh deleted\nnamespace/demo deleted\n"},
		{"delete namespaces --all", model.Invalid, "built in"}, {"get nodes", 0, "web01"},
	} {
		x.text.Reset()
		want := c.code.Exit()
		if c.code == 0 {
			want = 0
		}
		if _, code := x.run("", c.line); code != want || !strings.Contains(x.text.String(), c.want) {
			t.Errorf("code %d, want %d and %q\n%s", code, want, c.want, x.text.String())
		}
	}
	if out, code := x.run("", "apply -f DIR/team.yaml"); code != 0 || !strings.Contains(out, "runs on no node") {
		t.Errorf("made again: code %d: %s", code, out)
	}
}
