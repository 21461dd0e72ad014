package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestApplyOwnedFolder applies a folder with --owner and --prune, and expects deletions only of that owner's
// resources.
func TestApplyOwnedFolder(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01", "web02")
	rig.Apply("kind: Check\nmetadata: {name: theirs, owner: team-b}\nspec: {targets: {nodes: [web01]}, interval: 60s, command: x}\n")
	for _, dir := range []string{"repo/checks/deep", "repo/.git", "nothing"} {
		testenv.NoError(t, os.MkdirAll(filepath.Join(x.dir, dir), 0o700))
	}
	check := func(name string) string {
		return "kind: Check\nmetadata: {name: " + name + "}\nspec: {targets: {groups: [web]}, interval: 60s, command: x}\n"
	}
	x.writeFile("repo/checks/disk.yaml", check("disk"))
	x.writeFile("repo/checks/deep/load.yml", check("load"))
	x.writeFile("repo/zz-groups.json", `{"kind":"Group","metadata":{"name":"web"},"spec":{"nodes":["web01","web02"]}}`)
	x.writeFile("repo/.gitlab-ci.yml", "stages: [plan]\n")
	x.writeFile("repo/.git/config.yaml", "no: resource\n")
	x.writeFile("repo/README.md", "no resource\n")
	x.writeFile("mine.yaml", "kind: Check\nmetadata:\n  name: theirs\n  owner: team-b\nspec: {interval: 60s, command: x}\n")
	x.writeFile("theirs.yaml", check("theirs"))

	const waits = 20
	invalid, guarded := model.Invalid.Exit(), model.Guarded.Exit()
	x.expectOutput("", "lint DIR/repo --owner team-a", 0, "3 resources, no errors")
	x.expectOutput("", "plan -f DIR/repo --owner team-a --prune --exit-code", waits, "check/disk would be created", "group/web would be created    has 2 nodes", "2 nodes would get")
	x.env["MUSTER_MESSAGE"] = "watch the web servers\n\nmore of it"
	x.expectOutput("", "apply -f DIR/repo --owner team-a --prune", 0, "check/load created   runs on 2 nodes")
	x.expectOutput("", "audit --limit 3", 0, "for team-a changed 3 resources: watch the web servers\n")
	x.expectOutput("", "plan -f DIR/repo --owner team-a --prune --exit-code", 0, "check/disk unchanged")
	x.expectOutput("", "diff -f DIR/repo --owner team-a --prune --exit-code", 0, "no difference")
	x.expectOutput("", "get check load -o yaml", 0, "owner: team-a")

	testenv.NoError(t, os.Remove(filepath.Join(x.dir, "repo/checks/deep/load.yml")))
	x.expectOutput("", "apply -f DIR/repo --owner team-a", 0, "unchanged")
	x.expectOutput("", "get check load", 0, "load")
	x.expectOutput("", "diff -f DIR/repo --owner team-a --prune --exit-code", waits, "check/load would be deleted   no longer declared; runs on 2 nodes", "  -  owner: team-a")
	x.expectOutput("", "plan -f DIR/repo --owner team-a --prune --max-affected 1 --exit-code", guarded, "check/load would be deleted", "apply would refuse this change: this change affects 2 nodes", "delete 1 resource that team-a no longer declares: check/load")
	x.expectOutput("", "plan -f DIR/repo --owner team-a --prune --max-affected 1", 0, "apply would refuse this")
	x.expectOutput("", "apply -f DIR/repo --owner team-a --prune --max-affected 1", guarded, "pruning 1 resource of owner team-a:\n  check/load   no longer declared; runs on 2 nodes\n", "muster: this change affects 2 nodes")
	x.expectOutput("", "apply -f DIR/repo --owner team-a --prune", 0, "check/load deleted")
	x.expectOutput("", "get check load", model.NotFound.Exit())
	x.expectOutput("", "get check theirs", 0, "theirs")

	x.expectOutput("", "apply -f DIR/nothing --owner team-a --prune", invalid, "no resources in DIR/nothing", "team-a", "--allow-empty")
	x.expectOutput("", "apply -f DIR/nothing", invalid, "no resources in DIR/nothing")
	x.expectOutput("", "delete -f DIR/nothing", invalid, "no resources in DIR/nothing")
	x.expectOutput("", "apply -f DIR/nowhere --owner team-a --prune --allow-empty", model.NotFound.Exit(), "file DIR/nowhere does not exist")
	x.expectOutput("", "apply -f DIR/repo --prune", invalid, "--prune --owner team-a")
	x.expectOutput("", "apply -f DIR/repo --prune --owner=", invalid, "--owner is empty")
	x.expectOutput("", "apply -f DIR/repo --owner team-a --allow-empty", invalid, "only together with --prune")
	for _, verb := range []string{"lint", "plan -f", "apply -f"} {
		x.expectOutput("", verb+" DIR/mine.yaml --owner team-a", invalid, "DIR/mine.yaml:4:3: metadata.owner: is team-b, but --owner is team-a")
	}
	x.expectOutput("", "plan -f DIR/theirs.yaml --owner team-a --exit-code", guarded, "check/theirs would be updated", "apply would refuse this change: check/theirs belongs to team-b")
	x.expectOutput("", "apply -f DIR/theirs.yaml --owner team-a", guarded, "muster: check/theirs belongs to team-b; nothing was changed\n", "--take-over")
	x.expectOutput("", "apply -f DIR/theirs.yaml --owner team-a --take-over", 0, "warning: taken over from team-b")
	x.expectOutput("", "apply -f DIR/theirs.yaml", 0, "unchanged")

	x.writeFile("repo/broken.yaml", "kind: Chek\n")
	x.expectOutput("", "apply -f DIR/repo --owner team-a --prune", invalid, "DIR/repo/broken.yaml:1")
	x.expectOutput("", "get check theirs", 0, "theirs")
	testenv.NoError(t, os.Remove(filepath.Join(x.dir, "repo/broken.yaml")))
	testenv.NoError(t, os.Symlink(filepath.Join(x.dir, "nothing"), filepath.Join(x.dir, "repo/linked")))
	x.expectOutput("", "apply -f DIR/repo --owner team-a --prune", invalid, "DIR/repo/linked is a symbolic link to a folder")
	testenv.NoError(t, os.Symlink(filepath.Join(x.dir, "repo/checks"), filepath.Join(x.dir, "link")))
	x.expectOutput("", "lint DIR/link", 0, "1 resource, no errors")
	x.expectOutput("", "apply -f DIR/nothing --owner team-a --prune --allow-empty", 0, "check/disk deleted", "group/web deleted", "check/theirs deleted")
	x.expectOutput("", "get checks", 0, "no checks")
	x.expectOutput("", "node rename web02 web03", 0, "node/web02 renamed")
	x.expectOutput("", "audit --limit 1", 0, "watch the web servers")
}

// TestLintListsFlawsAsJSON lints files with -o json, and expects each error with file, line and column. Valid files
// give an empty list.
func TestLintListsFlawsAsJSON(t *testing.T) {
	rig := apitest.NewServer(t)
	x := newTerminal(t, rig)
	x.expectOutput(disk, "lint - -o json", 0, "[]\n")
	out, code := x.runCommandLine("kind: Check\nmetadata: {name: Web}\nspec: {intervall: 60s, command: x, ttl: 300}\n", "lint - -o json")
	var flaws []model.Flaw
	if err := json.Unmarshal([]byte(out), &flaws); err != nil || code != model.Invalid.Exit() || len(flaws) != 3 || flaws[0].Line != 2 || flaws[1].Field != "spec.intervall" {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
}

// TestErrorsOfDirectivesHaveTheirLine expects file, line and column in errors about the values of a directive. Its technique
// is in the same files, or on the server. Other refusals of the server about a resource have them, too.
func TestErrorsOfDirectivesHaveTheirLine(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	const technique = "kind: Technique\nmetadata: {name: web}\nspec:\n  parameters: [{name: port, type: integer}]\n  methods: [{component: a, filePresent: {path: \"/{{ .params.port }}\"}}]\n"
	directive := func(values string) string {
		return "kind: Directive\nmetadata: {name: web}\nspec:\n  technique: web\n" + values
	}
	x.writeFile("web.yaml", technique+"---\n"+directive(""))
	for _, verb := range []string{"lint", "plan -f", "apply -f"} {
		x.expectOutput("", verb+" DIR/web.yaml", model.Invalid.Exit(), "DIR/web.yaml:9:1: spec.parameters: parameter port has no value; write parameters: {port: VALUE}")
	}
	x.expectOutput(technique, "apply -f -", 0)
	x.writeFile("web.yaml", "---\n"+directive("  parameters:\n    port: x\n"))
	x.expectOutput("", "lint DIR/web.yaml", 0)
	x.expectOutput("", "plan -f DIR/web.yaml", model.Invalid.Exit(), "DIR/web.yaml:7:5: directive web: parameter port: \"x\" is not a whole number")
	x.writeFile("web.yaml", "---\n"+directive("  parameters: {port: 1}\n  rudder: id\n"))
	x.expectOutput("", "apply -f DIR/web.yaml", model.Invalid.Exit(), "DIR/web.yaml:7:3: directive web: technique default/web is for agents of Muster", "leave rudder out")
	x.writeFile("web.yaml", "kind: Directive\nmetadata: {name: web}\nspec:\n  technique: none\n")
	x.expectOutput("", "apply -f DIR/web.yaml", model.Invalid.Exit(), "DIR/web.yaml:4:3: directive/web: spec.technique: technique \"none\" does not exist")
}

// TestSilenceOfDirective silences a directive by two names, and expects the state of the silence. A name that is neither a
// check nor a directive is an error.
func TestSilenceOfDirective(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	x.expectOutput("kind: Technique\nmetadata: {name: web}\nspec: {methods: [{component: a, filePresent: {path: /a}}]}\n---\nkind: Directive\nmetadata: {name: motd}\nspec: {technique: web}\n", "apply -f -", 0)
	for _, name := range []string{"motd", "motd:compliance"} {
		x.expectOutput("", "silence web01/"+name+" --for 1h -m why --name s", 0, "silences motd:compliance on 1 node")
		x.expectOutput("", "describe silence s", 0, "state          active; ends in 1h", "covers         motd:compliance on web01")
		x.expectOutput("", "silence end s", 0)
	}
	x.expectOutput("", "silence --check motd --from 2036-01-01T00:00:00Z --for 1h -m why --name later", 0)
	x.expectOutput("", "describe silence later", 0, "state          pending; begins in ")
	x.expectOutput("", "silence web01/mot --for 1h -m why", model.NotFound.Exit(), "check/mot does not exist")
	x.expectOutput("", "silence web01/motd:other --for 1h -m why", model.NotFound.Exit(), "template/motd does not exist")
	x.expectOutput("", "get queues --limit 1", 0, "more: --limit 0 shows all")
}

// TestArgumentsAcceptKindSlashName expects commands to accept KIND/NAME like KIND NAME, and a file without -f.
func TestArgumentsAcceptKindSlashName(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	x.writeFile("disk.yaml", disk)
	for _, line := range []string{
		"lint DIR/disk.yaml", "plan DIR/disk.yaml", "diff DIR/disk.yaml", "apply DIR/disk.yaml", "get check/disk", "get handler/notebook -o json", "describe check/disk",
		"audit check/disk", "edit check/disk", "delete check/disk handler/notebook --dry-run", "delete check/disk handler/notebook",
	} {
		x.expectOutput("", line, 0)
	}
}

// TestDeleteIsAllOrNothing deletes several resources, and expects all or none to be deleted. One confirmation counts
// for all affected nodes.
func TestDeleteIsAllOrNothing(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01", "web02")
	rig.Apply("kind: Check\nmetadata: {name: a}\nspec: {targets: {nodes: [web01]}, interval: 60s, command: x}\n---\nkind: Check\nmetadata: {name: b}\nspec: {targets: {nodes: [web02]}, interval: 60s, command: x}\n")
	if out := x.expectOutput("", "delete checks a c b", model.NotFound.Exit()); out != "" {
		t.Errorf("deleted some of the checks: %s", out)
	}
	x.expectOutput("", "delete checks a b --max-affected 1", model.Guarded.Exit(), "preview the change: --dry-run")
	x.expectOutput("", "delete checks a b --dry-run", 0, "check/a would be deleted\ncheck/b would be deleted\n", "nothing was changed; 2 nodes")
	x.expectOutput("", "get checks", 0, "a ", "b ")
	x.expectOutput("", "delete checks a b", 0, "check/a deleted\ncheck/b deleted\n")
	x.expectOutput("", "audit --limit 2", 0, "changed 2 resources")
}

// TestDeleteSelections deletes resources by labels, by file and by --all, and expects exactly the selected resources
// to go. A non-empty namespace needs --cascade.
func TestDeleteSelections(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	x.writeFile("disk.yaml", disk)
	x.writeFile("team.yaml", "kind: Namespace\nmetadata: {name: team}\nspec: {}\n---\nkind: Check\nmetadata: {name: ssh, namespace: team}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}\n")
	rig.Apply("kind: Namespace\nmetadata: {name: demo}\nspec: {}\n---\nkind: Check\nmetadata: {name: ssh, namespace: demo}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}\n")
	rig.DeclareNodes("default", map[string]string{"env": "prod"}, "web01")
	rig.DeclareNodes("default", map[string]string{"env": "test"}, "web02", "web03")
	rig.DeclareNodes("demo", nil, "d1", "d2", "d3")
	for _, c := range []struct {
		line string
		code model.Class
		want string
	}{
		{"delete", model.Invalid, "muster delete KIND NAME"}, {"delete nodes", model.Invalid, "the name of the object is missing"},
		{"delete nodes d1 --all", model.Invalid, "cannot be combined with --all"}, {"delete -f DIR/disk.yaml nodes", model.Invalid, "-f cannot be combined with names"},
		{"delete events --all", model.Invalid, "by name"}, {"delete event web01/disk --dry-run", model.Invalid, "--dry-run does not apply to events"},
		{"delete node web01 --cascade", model.Invalid, "--cascade applies only to namespaces"}, {"delete nodes --all -l env=test", model.Invalid, "exclude each other"},

		{"delete nodes -l env=test --dry-run", 0, "node/web02 would be deleted\nnode/web03 would be deleted\n"},
		{"delete nodes -l env=test", 0, "node/web02 deleted\nnode/web03 deleted\n"},
		{"delete nodes -l env=test", 0, "no nodes with labels env=test in namespace default: nothing to delete\n"},
		{"get nodes", 0, "web01"},

		{"delete -f DIR/disk.yaml", model.NotFound, "check/disk does not exist"}, {"apply -f DIR/disk.yaml", 0, "created"},
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
		code := 0
		if c.code != 0 {
			code = c.code.Exit()
		}
		x.expectOutput("", c.line, code, c.want)
	}
	x.expectOutput("", "apply -f DIR/team.yaml", 0, "runs on no node")
}
