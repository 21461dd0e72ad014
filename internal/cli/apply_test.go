package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/model"
)

// TestApplyOwnedFolder applies a folder in git as a pipeline does: nested folders, one owner; --prune
// deletes resources that are no longer declared, and never those of another owner.
func TestApplyOwnedFolder(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", nil, "web01", "web02")
	rig.Apply("kind: Check\nmetadata: {name: theirs, owner: team-b}\nspec: {targets: {nodes: [web01]}, interval: 60s, command: x}\n")
	for _, dir := range []string{"repo/checks/deep", "repo/.git", "nothing"} {
		if err := os.MkdirAll(filepath.Join(x.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string) string {
		return "kind: Check\nmetadata: {name: " + name + "}\nspec: {targets: {groups: [web]}, interval: 60s, command: x}\n"
	}
	x.file("repo/checks/disk.yaml", check("disk"))
	x.file("repo/checks/deep/load.yml", check("load"))
	x.file("repo/zz-groups.json", `{"kind":"Group","metadata":{"name":"web"},"spec":{"nodes":["web01","web02"]}}`)
	x.file("repo/.gitlab-ci.yml", "stages: [plan]\n")
	x.file("repo/.git/config.yaml", "no: resource\n")
	x.file("repo/README.md", "no resource\n")
	x.file("mine.yaml", "kind: Check\nmetadata:\n  name: theirs\n  owner: team-b\nspec: {interval: 60s, command: x}\n")
	x.file("theirs.yaml", check("theirs"))
	step := func(line string, code int, wants ...string) {
		t.Helper()
		x.text.Reset()
		_, got := x.run("", line)
		if got != code {
			t.Errorf("$ muster %s: code %d, want %d\n%s", line, got, code, x.text.String())
		}
		for _, want := range wants {
			if !strings.Contains(x.text.String(), want) {
				t.Errorf("$ muster %s: %q is missing in\n%s", line, want, x.text.String())
			}
		}
	}
	const waits = 20
	invalid, guarded := model.Invalid.Exit(), model.Guarded.Exit()
	step("lint DIR/repo --owner team-a", 0, "3 resources, no errors")
	step("plan -f DIR/repo --owner team-a --prune --exit-code", waits, "check/disk would be created", "group/web would be created    has 2 nodes", "2 nodes would get")
	x.env["MUSTER_MESSAGE"] = "watch the web servers\n\nmore of it"
	step("apply -f DIR/repo --owner team-a --prune", 0, "check/load created   runs on 2 nodes")
	step("audit --limit 3", 0, "for team-a changed 3 resources: watch the web servers\n")
	step("plan -f DIR/repo --owner team-a --prune --exit-code", 0, "check/disk unchanged")
	step("diff -f DIR/repo --owner team-a --prune --exit-code", 0, "no difference")
	step("get check load -o yaml", 0, "owner: team-a")

	if err := os.Remove(filepath.Join(x.dir, "repo/checks/deep/load.yml")); err != nil {
		t.Fatal(err)
	}
	step("apply -f DIR/repo --owner team-a", 0, "unchanged")
	step("get check load", 0, "load")
	step("diff -f DIR/repo --owner team-a --prune --exit-code", waits, "check/load would be deleted   not declared any more; runs on 2 nodes", "  -  owner: team-a")
	step("plan -f DIR/repo --owner team-a --prune --max-affected 1 --exit-code", guarded, "check/load would be deleted", "apply would refuse this: this changes what 2 nodes do", "delete 1 resource that team-a declares no more: check/load")
	step("plan -f DIR/repo --owner team-a --prune --max-affected 1", 0, "apply would refuse this")
	step("apply -f DIR/repo --owner team-a --prune --max-affected 1", guarded, "pruning 1 resource of team-a:\n  check/load   not declared any more; runs on 2 nodes\n", "muster: this changes what 2 nodes do")
	step("apply -f DIR/repo --owner team-a --prune", 0, "check/load deleted")
	step("get check load", model.NotFound.Exit())
	step("get check theirs", 0, "theirs")

	step("apply -f DIR/nothing --owner team-a --prune", invalid, "no resources in DIR/nothing", "team-a", "--allow-empty")
	step("apply -f DIR/nothing", invalid, "no resources in DIR/nothing")
	step("delete -f DIR/nothing", invalid, "no resources in DIR/nothing")
	step("apply -f DIR/nowhere --owner team-a --prune --allow-empty", model.NotFound.Exit(), "there is no file DIR/nowhere")
	step("apply -f DIR/repo --prune", invalid, "--prune --owner team-a")
	step("apply -f DIR/repo --prune --owner=", invalid, "--owner is empty")
	step("apply -f DIR/repo --owner team-a --allow-empty", invalid, "needs --prune")
	for _, verb := range []string{"lint", "plan -f", "apply -f"} {
		step(verb+" DIR/mine.yaml --owner team-a", invalid, "DIR/mine.yaml:4:3: metadata.owner: is team-b, but --owner is team-a")
	}
	step("plan -f DIR/theirs.yaml --owner team-a --exit-code", guarded, "check/theirs would be updated", "apply would refuse this: check/theirs belongs to team-b")
	step("apply -f DIR/theirs.yaml --owner team-a", guarded, "muster: check/theirs belongs to team-b; nothing was changed\n", "--take-over")
	step("apply -f DIR/theirs.yaml --owner team-a --take-over", 0, "warning: taken over from team-b")
	step("apply -f DIR/theirs.yaml", 0, "unchanged")

	x.file("repo/broken.yaml", "kind: Chek\n")
	step("apply -f DIR/repo --owner team-a --prune", invalid, "DIR/repo/broken.yaml:1")
	step("get check theirs", 0, "theirs")
	if err := os.Remove(filepath.Join(x.dir, "repo/broken.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(x.dir, "nothing"), filepath.Join(x.dir, "repo/linked")); err != nil {
		t.Fatal(err)
	}
	step("apply -f DIR/repo --owner team-a --prune", invalid, "DIR/repo/linked is a symbolic link to a folder")
	if err := os.Symlink(filepath.Join(x.dir, "repo/checks"), filepath.Join(x.dir, "link")); err != nil {
		t.Fatal(err)
	}
	step("lint DIR/link", 0, "1 resource, no errors")
	step("apply -f DIR/nothing --owner team-a --prune --allow-empty", 0, "check/disk deleted", "group/web deleted", "check/theirs deleted")
	step("get checks", 0, "no checks")
}

// TestLintJSON lists flaws with their places; good files give an empty list.
func TestLintJSON(t *testing.T) {
	rig := apitest.New(t)
	x := newTerminal(t, rig)
	out, code := x.run(disk, "lint - -o json")
	if code != 0 || strings.TrimSpace(out) != "[]" {
		t.Errorf("code %d: %s", code, out)
	}
	out, code = x.run("kind: Check\nmetadata: {name: Web}\nspec: {intervall: 60s, command: x, ttl: 300}\n", "lint - -o json")
	var flaws []model.Flaw
	if err := json.Unmarshal([]byte(out), &flaws); err != nil || code != model.Invalid.Exit() || len(flaws) != 3 || flaws[0].Line != 2 || flaws[1].Field != "spec.intervall" {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
}
