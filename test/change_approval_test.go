//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// reviewedPolicy holds two nodes to a line each by one directive, and one of them by another. The group of the second needs reviews.
const reviewedPolicy = `
{kind: Technique, metadata: {name: line}, spec: {multiInstance: true, parameters: [{name: word}], methods: [{component: line, fileLines: {path: %q, lines: ["{{ .params.word }}"]}}]}}
---
{kind: Directive, metadata: {name: everywhere}, spec: {technique: line, parameters: {word: %s}, interval: 10s}}
---
{kind: Directive, metadata: {name: laboratory}, spec: {technique: line, parameters: {word: %[2]s}, interval: 10s}}
---
{kind: Policy, metadata: {name: everywhere}, spec: {directives: [everywhere], targets: {nodes: [n1, n2]}}}
---
{kind: Policy, metadata: {name: laboratory}, spec: {directives: [laboratory], targets: {nodes: [n1]}}}
---
{kind: Group, metadata: {name: production}, spec: {nodes: [n2], review: true}}
`

// TestReviewedGroupChangeNeedsApproval changes a directive on a group that requires review, and expects the change to wait for
// approval. Another person must approve, also after kill -9; the change of a directive on other groups takes effect at
// once.
func TestReviewedGroupChangeNeedsApproval(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	file := filepath.Join(t.TempDir(), "lines")
	testenv.NoError(t, os.WriteFile(file, []byte("one\n"), 0o600))
	for _, name := range []string{"n1", "n2"} {
		s.StartAgent(name)
	}
	s.Apply(fmt.Sprintf(reviewedPolicy, file, "one"))
	s.AwaitOutput("get compliance n1/everywhere", "100.00 %")
	s.AwaitOutput("get compliance n2/everywhere", "100.00 %")
	s.AwaitOutput("get compliance n1/laboratory", "100.00 %")
	changed := tempFile(t, "changed.yaml", fmt.Sprintf(reviewedPolicy, file, "two"))
	harness.Run(t, s.Env(), "plan", "-f", changed).Expect(harness.AnyCode, "in steps: approval of another person, 100%")
	harness.Run(t, s.Env(), "apply", "--yes", "-f", changed).Expect(0, "no node has the change of directive default/everywhere until another person types: muster rollout approve everywhere")
	s.AwaitOutput("rollout show everywhere", "requested", "another person than its author has to approve it", "0 of 2 nodes have the new version", "n1, n2", `parameters.word: "one" → "two"`)
	harness.Run(t, s.Env(), "rollout", "requests").Expect(0, "roll-out", "directive/everywhere updated", "muster rollout approve everywhere")
	harness.Run(t, s.Env(), "rollout", "show", "laboratory").Expect(3, "has no roll-out")
	s.AwaitOutput("get compliance n1/laboratory", "0.00 %", "non-compliant")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("rollout list", "everywhere", "requested", "0 of 2")
	harness.Run(t, s.Env(), "rollout", "approve", "everywhere").Expect(6, "admin made the change, so another person has to approve it")
	s.AwaitOutput("get compliance n2/everywhere", "100.00 %")

	bob := loginBob(t, s)
	harness.Run(t, bob, "rollout", "approve", "everywhere").Expect(0)
	s.AwaitOutput("get compliance n2/everywhere", "0.00 %", "non-compliant")
	s.AwaitOutput("rollout show everywhere", "approved", "all 2 nodes have the new version") // no failure stops it, so it has ended

	// Other changes of policies on the node wait as a whole until another person repeats the command, also an undo.
	target := tempFile(t, "target.yaml", `{kind: Policy, metadata: {name: laboratory}, spec: {directives: [laboratory], targets: {nodes: [n1, n2]}}}`)
	const awaits = "this change awaits the approval of another person, because it changes policies or approval rules of 1 node in a group that requires approval: n2"
	harness.Run(t, s.Env(), "plan", "-f", target).Expect(harness.AnyCode, "apply would refuse this change: "+awaits)
	harness.Run(t, s.Env(), "apply", "-f", target).Expect(10, awaits, "admin requested it")
	harness.Run(t, s.Env(), "apply", "-f", target).Expect(10, awaits)
	harness.Run(t, s.Env(), "get", "compliance", "n2/laboratory").Expect(3, "directive laboratory is not assigned to node n2")
	list := harness.Run(t, s.Env(), "rollout", "requests").Expect(0, "REQUEST", "admin", "in 7d", "policy/laboratory updated", "muster apply -f FILE")
	id := strings.Fields(strings.Split(list.Out, "\n")[1])[0]
	harness.Run(t, s.Env(), "rollout", "requests", id).Expect(0, "nodes", "1 node: n2", "another administrator types until", "+      - n2")
	harness.Run(t, s.Env(), "audit", "-A").Expect(0, "requested policy/laboratory, awaits another person")
	harness.Run(t, bob, "apply", "-f", target).Expect(0)
	harness.Run(t, s.Env(), "rollout", "requests").Expect(0, "no change awaits the approval of another person")
	harness.Run(t, s.Env(), "rollout", "requests", id).Expect(3, "0 open requests have an id that begins with "+id)
	s.AwaitOutput("get compliance n2/laboratory", "0.00 %", "non-compliant")
	harness.Run(t, s.Env(), "rollout", "undo", "everywhere").Expect(10, awaits)
	harness.Run(t, s.Env(), "rollout", "requests").Expect(0, "directive/everywhere updated", "muster rollout undo everywhere")
	s.AwaitOutput("get compliance n2/everywhere", "0.00 %")
	harness.Run(t, bob, "rollout", "undo", "everywhere").Expect(0, "undone")
	s.AwaitOutput("get compliance n2/everywhere", "100.00 %")
}
