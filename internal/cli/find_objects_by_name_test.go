package cli_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// newNamedFleet returns a test server whose objects have the same names in several namespaces. Other objects
// have unique names.
func newNamedFleet(t *testing.T) (*apitest.Server, *testTerminal) {
	rig, x := openLoggedInTerminal(t)
	rig.Apply("kind: Namespace\nmetadata: {name: team-a}\nspec: {}\n")
	rig.DeclareNodes("default", nil, "web01", "team-a")
	rig.DeclareNodes("team-a", nil, "web01", "db01.example.org")
	rig.Apply(`
{kind: Check, metadata: {name: disk}, spec: {targets: {groups: [shared/all]}, interval: 60s, command: x}}
---
{kind: Check, metadata: {name: disk, namespace: team-a}, spec: {targets: {groups: [shared/all]}, interval: 60s, command: x}}
---
{kind: Check, metadata: {name: load, namespace: shared}, spec: {targets: {groups: [all]}, interval: 60s, command: x}}
---
{kind: Group, metadata: {name: web, namespace: team-a}, spec: {nodes: [web01]}}
---
{kind: Handler, metadata: {name: pager, namespace: team-a}, spec: {command: 'true'}}
---
{kind: Route, metadata: {name: night, namespace: team-a}, spec: {steps: [{to: [pager]}]}}
---
{kind: Window, metadata: {name: hours, namespace: team-a}, spec: {spans: [{from: "2026-12-24 18:00", to: "2026-12-27 06:00"}]}}
---
{kind: Property, metadata: {name: disk-warn, namespace: team-a}, spec: {property: disk_warn, value: "20%"}}
---
{kind: Secret, metadata: {name: db-password, namespace: team-a}, spec: {agentFile: db-password}}
---
{kind: Filter, metadata: {name: often, namespace: team-a}, spec: {action: allow, expressions: [event.check.occurrences > 2]}}
---
{kind: Mutator, metadata: {name: short, namespace: team-a}, spec: {javascript: return event.check.output}}
---
{kind: Hook, metadata: {name: processes, namespace: team-a}, spec: {command: ps aux}}
---
{kind: Pipeline, metadata: {name: alerts, namespace: team-a}, spec: {workflows: [{name: oncall, filters: [often], handler: pager}]}}
---
{kind: Technique, metadata: {name: motd, namespace: team-a}, spec: {methods: [{component: file, filePresent: {path: /etc/motd}}]}}
---
{kind: Directive, metadata: {name: motd, namespace: team-a}, spec: {technique: motd}}
---
{kind: Policy, metadata: {name: baseline, namespace: team-a}, spec: {directives: [motd], targets: {groups: [all]}}}
---
{kind: RuleGroup, metadata: {name: disks, namespace: team-a}, spec: {rules: [{record: "disk:max", expr: max(disk)}]}}
---
{kind: Waiver, metadata: {name: old, namespace: team-a}, spec: {directive: motd, targets: {groups: [all]}, reason: old, owner: ada, expires: 2026-12-24T18:00:00Z}}
---
{kind: Template, metadata: {name: linux, namespace: team-a}, spec: {items: [{key: agent.ping}]}}
`)
	awaitPlanner(t, rig)
	rig.RunDispatcher()
	for _, name := range []string{"default/web01/disk", "default/team-a/disk", "team-a/web01/disk", "team-a/web01/load", "team-a/db01.example.org/disk"} {
		part := strings.Split(name, "/")
		rig.RecordResult(part[0], part[1], part[2], model.Critical, "CRITICAL")
	}
	rig.AwaitHistory()
	x.expectOutput("", "silence -m test --for 1h team-a/web01 --name quiet", 0)
	return rig, x
}

// tableCells matches the cells of a row: two blanks or more lie between them.
var tableCells = regexp.MustCompile(` {2,}`)

// eachRow calls fn for each row of a printed table, with a map from column name to cell
func eachRow(table string, fn func(row map[string]string)) (rows int) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	head := tableCells.Split(lines[0], -1)
	for _, line := range lines[1:] {
		cells, row := tableCells.Split(line, len(head)), map[string]string{}
		if len(cells) < len(head) {
			continue // a note below the table
		}
		for i, name := range head {
			row[name] = cells[i]
		}
		fn(row)
		rows++
	}
	return rows
}

// commandsOfNodes and commandsOfEvents are all commands that take the name of a node, and of an event.
var (
	commandsOfNodes = []string{
		"describe node %s", "get node %s", "get node %s -o yaml", "get node/%s", "audit node %s", "edit node %s", "delete node %s --dry-run --yes", "node retire %s --dry-run --yes",
		"node rename %s other --dry-run --yes", "why %s", "get history %s", "report availability %s", "get events --node %s", "get problems --node %s", "get history --node %s",
		"event ack --node %s --dry-run", "silence -m x --for 1h --dry-run %s", "label node %s a=b --overwrite", "annotate node %s a=b --overwrite", "node replace %s",
	}
	commandsOfEvents = []string{
		"event ack %s", "event unack %s", "event notify %s", "describe event %s", "get event %s", "get event %s -o yaml", "get history %s", "why %s", "report availability %s", "route test %s", "silence -m x --for 1h --dry-run %s",
		"event ack %s",
	}
)

// TestPrintedNamesAreAccepted passes names from tables to commands, and expects every command to accept the names.
func TestPrintedNamesAreAccepted(t *testing.T) {
	rig, x := newNamedFleet(t)
	rig.Apply(`{kind: Asset, metadata: {name: plugins, namespace: team-a}, spec: {builds: [{os: linux, url: "https://files.example.org/p.tar.gz", sha512: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}]}}`)
	pasted := map[string]bool{}
	paste := func(command, namespace, name string) {
		names := []string{namespace + "/" + name}
		if namespace == "" {
			names = []string{name}
		}
		if namespace == model.DefaultNamespaceName {
			names = append(names, name)
		}
		for _, name := range names {
			if line := fmt.Sprintf(command, name); !pasted[line] {
				pasted[line] = true
				if out, code := x.runCommandLine("", line); code != 0 && code != model.Conflict.Exit() { // others may refer to it, or its state is the requested one
					t.Errorf("muster %s: code %d\n%s", line, code, out)
				}
			}
		}
	}
	lists := map[string]string{}
	for list, kind := range map[string]string{
		"get events -A": "event", "get problems -A": "event", "get history -A": "event", "report availability -A": "event", "get events": "event", "get events -n team-a": "event",
		"get nodes -A": "node", "node list -A": "node", "report availability -A --by node": "node", "get nodes": "node",
		"silence list -A": "silence", "get events --at 0s -A": "event", "report availability -A --by group": "group",
	} {
		lists[list] = kind
	}
	for _, k := range kind.All().Kinds() { // every kind needs an object in newNamedFleet
		lists["get "+k.Plural+" -A"] = strings.ToLower(k.Name)
	}
	for list, kind := range lists {
		out := x.expectOutput("", list, 0)
		rows := eachRow(out, func(row map[string]string) {
			namespace := row["NAMESPACE"]
			if _, of, named := strings.Cut(list, "-n "); named {
				namespace = of
			} else if namespace == "" && kind != "namespace" {
				namespace = model.DefaultNamespaceName
			}
			if node := row["NODE"]; kind == "event" {
				for _, command := range commandsOfEvents {
					check := row["CHECK"]
					if check == "" {
						check = row["SOURCE"]
					}
					paste(command, namespace, node+"/"+check)
				}
				for _, command := range commandsOfNodes {
					paste(command, namespace, node)
				}
				return
			} else if kind == "node" {
				name := row["NAME"]
				if name == "" {
					name = node
				}
				for _, command := range commandsOfNodes {
					paste(command, namespace, name)
				}
				return
			}
			name := row["NAME"]
			if name == "" {
				name = row["GROUP"]
			}
			for _, command := range []string{"describe %s", "get %s", "edit %s", "audit %s", "delete --dry-run --yes %s"} {
				if kind == "namespace" && strings.HasPrefix(command, "delete") {
					continue // the namespace has content
				}
				paste(fmt.Sprintf(command, kind)+" %s", namespace, name)
				paste(fmt.Sprintf(command, kind)+"/%s", namespace, name)
			}
			switch kind {
			case "check":
				for _, command := range []string{"get events --check %s", "get problems --check %s", "get history --check %s", "report availability --check %s", "event ack --check %s --dry-run"} {
					paste(command, namespace, name)
				}
			case "group":
				for _, command := range []string{"get events --group %s", "get nodes --group %s", "report availability --group %s", "event ack --group %s --dry-run"} {
					paste(command, namespace, name)
				}
			case "handler":
				paste("handler dead %s", namespace, name)
				paste("handler replay %s", namespace, name)
			}
		})
		if rows == 0 {
			t.Errorf("%s has no rows:\n%s", list, out)
		}
	}
	eachRow(x.expectOutput("", "get problems -A", 0), func(row map[string]string) {
		for _, command := range []string{"describe problem %s", "get problem %s", "get history --problem %s"} {
			paste(command, row["NAMESPACE"], row["NODE"]+"/"+row["SOURCE"])
		}
	})
	for list, commands := range map[string][]string{
		"get problems -A": append([]string{"describe problem %s", "get problem %s", "get history --problem %s"}, commandsOfEvents...),
		"get queues":      {"get queue %s"},
		"node token list": {"node token delete %s"}, // other tokens: TestGetAcceptsKubectlOptions
	} {
		if eachRow(x.expectOutput("", list, 0), func(row map[string]string) {
			for _, command := range commands {
				paste(command, "", row["ID"]+row["QUEUE"])
			}
		}) == 0 {
			t.Errorf("%s has no rows", list)
		}
	}
	if len(pasted) < 300 {
		t.Errorf("only %d commands", len(pasted))
	}
}

// TestIDsOfProblemsNameEvents expects commands to accept the id of an open problem in place of its event's
// name. The command describe problem NODE/CHECK shows the open problem, or else the last one.
func TestIDsOfProblemsNameEvents(t *testing.T) {
	rig, x := newNamedFleet(t)
	id := strings.TrimPrefix(strings.TrimSpace(x.expectOutput("", "get problems -n team-a --node web01 --check load --open -o name", 0)), "problem/")
	x.expectOutput("", "why "+id, 0, "web01/load in namespace team-a")
	x.expectOutput("", "silence -m x --for 1h --dry-run "+id, 0, "silences load on 1 node")
	x.expectOutput("", "event ack "+id+" -m mine", 0, "acknowledged")
	x.expectOutput("", "describe problem team-a/web01/load", 0, id+" of web01/load is open", "mine")
	rig.RecordResult("team-a", "web01", "load", model.OK, "fine")
	rig.AwaitHistory()
	x.expectOutput("", "describe problem team-a/web01/load", 0, id+" of web01/load is closed")
	x.expectOutput("", "event ack "+id, model.Conflict.Exit(), "problem "+id+" of event team-a/web01/load is closed")
	rig.RecordResult("team-a", "web01", "load", model.Critical, "CRITICAL")
	rig.AwaitHistory()
	x.expectOutput("", "event ack "+id, model.Conflict.Exit(), "is closed", "muster get event team-a/web01/load")
	if out := x.expectOutput("", "describe problem team-a/web01/load", 0, "is open"); strings.Contains(out, id) {
		t.Errorf("the closed problem instead of the open one:\n%s", out)
	}
	x.expectOutput("", "describe problem default/db/load", model.NotFound.Exit(), "db")
}

// TestNamesWithSlashes expects an argument A/B to mean check B on node A if node A exists. A namespace in the
// name that contradicts -n must be an error.
func TestNamesWithSlashes(t *testing.T) {
	_, x := newNamedFleet(t)
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"why team-a/disk", "team-a/disk in namespace default", 0},
		{"why team-a/db01.example.org", "db01.example.org in namespace team-a", 0},
		{"why team-a/web01 -n team-a", "web01 in namespace team-a", 0},
		{"describe event db01.example.org/disk -A", "db01.example.org/disk is CRITICAL", 0},
		{"describe event web01/disk -A", "node web01 exists in namespaces default, team-a", 2},
		{"describe node team-a/web01 -n default", "team-a/web01 is in namespace team-a, but -n names default", 2},
		{"describe check load -A", "check/shared/load", 0},
		{"describe handler nope -A", "handler nope does not exist in any namespace", 3},
		{"describe node a/b/c", "expected NAME or NAMESPACE/NAME", 2},
		{"silence -m x --for 1h -A --check disk --dry-run", "on 4 nodes", 0},
		{"get events --node team-a/web01 --check default/disk", "default/disk is not in namespace team-a", 2},
		{"asset list -A", "", 0}, {"status -A", "", 0}, {"audit -A", "team-a", 0},
		{"node retire -A --selector no=such --dry-run", "no nodes with labels no=such: nothing to retire", 0},
		{"node token -A", "muster node token does not accept -A", 2},
		{"delete checks -A --all --dry-run", "check/team-a/disk", 0},
	} {
		x.expectOutput("", c.line, c.code, c.want)
	}
}

// TestUnknownNameErrorsHaveNoAPIPath passes unknown names to commands, and expects errors that do not mention
// URL paths of the API. Each answer is about a name: none shows a path of the API, and none is an internal
// error.
func TestUnknownNameErrorsHaveNoAPIPath(t *testing.T) {
	_, x := newNamedFleet(t)
	commands := slices.Concat(commandsOfNodes, commandsOfEvents, []string{
		"node replace %s", "describe problem %s", "get problem %s", "describe check %s", "get check %s", "edit check %s", "delete check %s --dry-run", "describe namespace %s", "get namespace %s",
		"handler test %s", "handler dead %s", "handler replay %s", "silence end %s", "auth token revoke %s", "auth user delete %s", "auth user grant %s --role viewer",
		"node token delete %s", "node unblock %s", "get agents %s", "get queue %s", "event resolve %s", "event delete %s", "delete event %s",
	})
	part := rapid.SampledFrom([]string{"web01", "team-a", "nope", ".", "..", "%2F", "a?b", "a#b", "ü", "*", "shared", "%", "disk"})
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "parts"), "/") + rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "end")
		line := fmt.Sprintf(rapid.SampledFrom(commands).Draw(t, "command"), name)
		began := x.text.Len()
		_, code := x.runCommandLine("", line)
		_, shown, _ := strings.Cut(x.text.String()[began:], "\n")
		if code == 1 || strings.Contains(shown, "/api/") || strings.Contains(shown, "not from a Muster server") {
			t.Fatalf("muster %s: code %d\n%s", line, code, shown)
		}
	})
}
