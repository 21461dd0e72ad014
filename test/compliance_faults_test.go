//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// slowPolicy holds a node to a line, and to a command that says in a file that the run has come so far, and waits for another file.
const slowPolicy = `
kind: Technique
metadata: {name: slow}
spec:
  parameters: [{name: word}]
  methods:
    - {component: line, fileLines: {path: %[1]s/lines, lines: ["{{ .params.word }}"]}}
    - component: wait
      command: {check: "echo x >> %[1]s/reached-{{ .params.word }}; until [ -e %[1]s/go-{{ .params.word }} ]; do sleep 0.1; done"}
    - {component: end, filePresent: {path: %[1]s/lines}}
---
{kind: Directive, metadata: {name: slow}, spec: {technique: slow, interval: 10s, parameters: {word: %[2]s}}}
---
{kind: Policy, metadata: {name: slow}, spec: {directives: [slow], targets: {nodes: [n1]}}}
`

// slowDirective is a test fixture with a server, an agent and a directive that pauses in each run. A run waits
// in the middle until the test lets it continue.
type slowDirective struct {
	*harness.Server
	t      *testing.T
	folder string
	agent  *harness.Agent
}

// startSlowDirective starts a server and an agent for a directive whose runs pause halfway. A run waits in the
// middle until the test lets it continue.
func startSlowDirective(t *testing.T) *slowDirective {
	x := &slowDirective{Server: harness.StartServer(t), t: t, folder: t.TempDir()}
	x.Login()
	x.writeCommandFile("lines", "one\n")
	x.agent = x.StartAgent("n1")
	x.AwaitOutput("get nodes", "n1")
	return x
}

// writeCommandFile writes a file into the folder of the directive's commands. The commands read the file.
func (x *slowDirective) writeCommandFile(name, text string) {
	x.t.Helper()
	testenv.NoError(x.t, os.WriteFile(filepath.Join(x.folder, name), []byte(text), 0o600))
}

// awaitPausedRuns waits until n runs of the directive have paused halfway. The runs have the given word in
// their command.
func (x *slowDirective) awaitPausedRuns(word string, n int) {
	x.t.Helper()
	harness.Until(x.t, 60*time.Second, "a run is in its middle", func() (string, bool) {
		data, _ := os.ReadFile(filepath.Join(x.folder, "reached-"+word))
		return string(data), strings.Count(string(data), "\n") >= n
	})
}

// compliance returns the directive's compliance on the node n1, from the API.
func (x *slowDirective) compliance() v1.Compliance {
	x.t.Helper()
	l, err := x.Server.API.Compliance(x.t.Context(), v1.ComplianceFilter{Node: "n1", Namespace: "default", Details: true}, 10, "")
	require(x.t, err == nil && len(l.Items) == 1, "compliance: %v %+v", err, l.Items)
	return l.Items[0]
}

// TestKilledAgentReportsOnlyCompleteRuns kills an agent during a directive's run, and expects only complete runs to be
// reported. It tries the first run and a later run; the next complete run counts.
func TestKilledAgentReportsOnlyCompleteRuns(t *testing.T) {
	t.Parallel()
	x := startSlowDirective(t)
	x.Apply(fmt.Sprintf(slowPolicy, x.folder, "one"))
	x.awaitPausedRuns("one", 1)
	x.agent.Kill()
	if c := x.compliance(); c.Status != "pending" || !c.Run.IsZero() {
		t.Errorf("after a part of the first run: %+v", c)
	}
	x.writeCommandFile("go-one", "")
	x.agent.Start()
	x.AwaitOutput("get compliance n1/slow", "100.00 %", "compliant")

	testenv.NoError(t, os.Remove(filepath.Join(x.folder, "go-one")))
	testenv.NoError(t, os.Remove(filepath.Join(x.folder, "reached-one")))
	x.awaitPausedRuns("one", 1) // the run began before the line changes, or sees it
	x.writeCommandFile("lines", "other\n")
	x.agent.Kill()
	before := x.compliance()
	if before.Status != "compliant" || before.Run.IsZero() {
		t.Errorf("after a part of a later run: %+v", before)
	}
	x.writeCommandFile("go-one", "")
	x.agent.Start()
	x.AwaitOutput("get compliance n1/slow", "66.67 %", "non-compliant (1 of 3)")
	after := x.compliance()
	if n := len(after.Components); n != 3 || after.Components[0].Status != "non-compliant" || after.Components[2].Status != "compliant" || !after.Run.After(before.Run) {
		t.Errorf("the next run: %+v", after)
	}
}

// TestDirectiveChangeWaitsForNextRun changes a directive during its run, and expects the new version to wait for the
// next run. The report of the run counts for the old version only; the new version waits for its own first run.
func TestDirectiveChangeWaitsForNextRun(t *testing.T) {
	t.Parallel()
	x := startSlowDirective(t)
	x.Apply(fmt.Sprintf(slowPolicy, x.folder, "one"))
	x.awaitPausedRuns("one", 1)
	x.Apply(fmt.Sprintf(slowPolicy, x.folder, "two"))
	x.writeCommandFile("go-one", "")
	x.awaitPausedRuns("two", 1) // the agent has the new version, and no run of the old one is under way
	c := x.compliance()
	if c.Status != "pending" {
		t.Errorf("before the run of the new version: %+v", c)
	}
	x.writeCommandFile("go-two", "")
	x.AwaitOutput("get compliance n1/slow", "66.67 %", "non-compliant (1 of 3)")
	x.AwaitOutput("describe compliance n1/slow", `lacks "two"`)
}

// TestFaultyTechniqueAffectsOneDirective declares faulty techniques, and expects errors without effect on other
// directives. Techniques with a cycle, a missing parameter or a wrong template are refused. A technique whose
// property the node lacks reports that it could not be checked, and other directives continue.
func TestFaultyTechniqueAffectsOneDirective(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	folder := t.TempDir()
	testenv.NoError(t, os.WriteFile(filepath.Join(folder, "a"), nil, 0o600))
	for _, name := range []string{"n1", "n2"} {
		s.StartAgent(name)
	}
	technique := func(name, more, methods string) string {
		return fmt.Sprintf("{kind: Technique, metadata: {name: %s}, spec: {%smethods: [%s]}}\n---\n", name, more, strings.ReplaceAll(methods, "$F", folder))
	}
	directive := func(name, more string) string {
		return fmt.Sprintf("{kind: Directive, metadata: {name: %[1]s}, spec: {technique: %[1]s, interval: 10s%[2]s}}\n---\n{kind: Policy, metadata: {name: %[1]s}, spec: {directives: [%[1]s], targets: {groups: [all]}}}\n", name, more)
	}
	const present = `{component: a, filePresent: {path: $F/a}}`
	for yaml, want := range map[string]string{
		technique("cycle", "", `{component: a, when: 'ok("b")', filePresent: {path: $F/a}}, {component: b, when: 'ok("a")', filePresent: {path: $F/a}}`): `no component "b" runs before`,
		technique("self", "", `{component: a, when: 'ok("a")', filePresent: {path: $F/a}}`):                                                              `no component "a" runs before`,
		technique("missing", "parameters: [{name: path}], ", present) + directive("missing", ""):                                                         "parameter path has no value",
		technique("wrong", "", `{component: a, filePresent: {path: '$F/{{ .props.a | upper }}'}}`):                                                       "spec.methods[0].filePresent",
	} {
		s.Try("apply", "--yes", "-f", tempFile(t, "faulty.yaml", yaml)).Expect(harness.AnyFailure, want)
	}
	s.Apply(technique("good", "", present) + directive("good", "") + "---\n" +
		technique("property", "", `{component: named, filePresent: {path: '$F/{{ .props.name }}'}}, `+present) + directive("property", "") + `---
{kind: Property, metadata: {name: name}, spec: {scope: "node:n1", value: a}}
`)
	for _, node := range []string{"n1", "n2"} {
		s.AwaitOutput("get compliance "+node+"/good", "100.00 %")
	}
	s.AwaitOutput("get compliance n1/property", "100.00 %")
	s.AwaitOutput("get compliance n2/property", "50.00 %", "could not check (1 of 2)")
	s.AwaitOutput("describe compliance n2/property", "named  could not check", "name", "a  compliant")
}

// TestTenMegabyteAssignmentIsApplied gives a node directives with ten megabytes of files, and expects all files on the
// node. Then it changes one file.
func TestTenMegabyteAssignmentIsApplied(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	folder := t.TempDir()
	s.StartAgent("n1", "--policy-enforce")
	s.AwaitOutput("get nodes", "n1")
	const directives, files, size = 48, 4, 55_000 // a definition has at most 256 KiB
	apply := func(i int, letter string) {
		var methods strings.Builder
		for k := range files {
			fmt.Fprintf(&methods, "    - {component: f%d, fileContent: {path: %s/%d-%d, content: %q}}\n", k, folder, i, k, strings.Repeat(letter, size))
		}
		s.Apply(fmt.Sprintf("kind: Technique\nmetadata: {name: large%[1]d}\nspec:\n  methods:\n%[2]s---\n{kind: Directive, metadata: {name: large%[1]d}, spec: {technique: large%[1]d, mode: enforce, interval: 1m}}\n---\n"+
			"{kind: Policy, metadata: {name: large%[1]d}, spec: {directives: [large%[1]d], targets: {nodes: [n1]}}}\n", i, methods.String()))
	}
	expect := func(i int, letter string) {
		t.Helper()
		want := strings.Repeat(letter, size)
		harness.Until(t, 2*time.Minute, "the files are on the node", func() (string, bool) {
			for k := range files {
				path := filepath.Join(folder, fmt.Sprintf("%d-%d", i, k))
				if data, err := os.ReadFile(path); err != nil || string(data) != want {
					return fmt.Sprintf("%s: %d bytes, %v", path, len(data), err), false
				}
			}
			return "", true
		})
	}
	for i := range directives {
		apply(i, "a")
	}
	for i := range directives {
		expect(i, "a")
	}
	apply(7, "b")
	expect(7, "b")
	s.AwaitOutput("get compliance n1/large7", "100.00 %")
}
