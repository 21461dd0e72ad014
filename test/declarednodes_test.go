package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// Nodes in files: the machine that joins under a declared name keeps what its token gave
// when the file is applied again; no copy of a file takes the machine, none brings a retired
// one back; and who makes a machine trusted that chose its own name is told.
func TestDeclaredNodes(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Client()
	dir := t.TempDir()
	apply := func(text string) harness.Result {
		t.Helper()
		file := filepath.Join(dir, "nodes.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return harness.Run(t, s.Env(), "apply", "-f", file)
	}
	says := func(r harness.Result, code int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if r.Code != code || !strings.Contains(r.Out+r.Errors, want) {
				t.Errorf("code %d, want %d and %q\n%s%s", r.Code, code, want, r.Out, r.Errors)
			}
		}
	}
	const trusted = "kind: Group\nmetadata: {name: payment}\nspec: {trusted: true, where: 'node.labels.role == \"payment\"'}\n---\n"
	declared := func(name, labels string) string {
		return "kind: Node\nmetadata: {name: " + name + ", labels: {" + labels + "}}\nspec: {groups: [web]}\n---\n"
	}
	says(apply(trusted+declared("web01", "")+declared("pay01", "role: payment")), 0, "node/web01 created", "node/pay01 created")

	line := joinWords(t, s, "--groups", "canary", "--labels", "os=x", "--uses", "2")
	m := newJoiner(t)
	if id := m.mustJoin(line[1], "--name", "web01"); id.Name != "web01" {
		t.Fatalf("the machine is %s", id.Name)
	}
	if id := newJoiner(t).mustJoin(line[1], "--name", "pay01"); id.Name != "pay01-2" {
		t.Errorf("a name gave a trusted node: %s", id.Name)
	}
	newJoiner(t).expectRefusal(5, "was used 2 times", "join", line[1], "--name", "web03")

	says(apply(declared("web01", "")), 0, "node/web01 unchanged")
	page := s.CLI("describe", "node", "web01")
	for _, want := range []string{"canary         it was given (spec.given.groups): join token ", "os             x                    join token "} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	says(apply(declared("web01", "role: payment")), 0, "node/web01 updated", "it comes into the trusted group payment, and its machine joined with join token ")

	exported := s.CLI("get", "node", "web01", "-o", "yaml")
	says(apply(strings.ReplaceAll(exported, "web01", "copy2")), model.Conflict.Exit(), "is that of node/web01", "leave spec.uid out")
	s.CLI("node", "retire", "web01", "--yes")
	says(apply(exported), model.Conflict.Exit(), "was retired", "muster node forgive "+m.identity().Node.String())
}
