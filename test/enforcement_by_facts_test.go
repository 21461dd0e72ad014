//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// trustPolicy enforces a file on the nodes of a group over facts.
const trustPolicy = `
{kind: Group, metadata: {name: linux}, spec: {where: 'node.facts.os == "linux"'}}
---
{kind: Technique, metadata: {name: file}, spec: {methods: [{component: file, filePresent: {path: %q}}]}}
---
{kind: Directive, metadata: {name: file}, spec: {technique: file, mode: enforce, interval: 10s%s}}
---
{kind: Policy, metadata: {name: baseline}, spec: {directives: [file], targets: {groups: [linux]}}}
`

// TestEnforcementByFactsOnlyAudits enforces a directive on a group selected by facts, and expects an audit
// without changes. Agents report the facts, so commands say why; with trusted: facts the directive enforces.
func TestEnforcementByFactsOnlyAudits(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	s.StartAgent("db1", "--policy-enforce")
	file, yaml := filepath.Join(t.TempDir(), "made"), filepath.Join(t.TempDir(), "policy.yaml")
	s.AwaitOutput("get nodes", "db1")
	testenv.NoError(t, os.WriteFile(yaml, fmt.Appendf(nil, trustPolicy, file, ""), 0o600))
	harness.Run(t, s.Env(), "lint", yaml).Expect(0, "directive file enforces, but only audits on nodes that policy baseline selects by group linux")
	harness.Run(t, s.Env(), "apply", "-f", yaml, "--yes").Expect(0, "only audits on 1 node that group linux selects: machines can bring themselves in. Set trusted: true in the group")
	s.AwaitOutput("get compliance", "db1", "audit", "non-compliant")
	if _, err := os.Stat(file); err == nil {
		t.Error("a directive over facts changed the node")
	}
	harness.Run(t, s.Env(), "describe", "directive", "file").Expect(0, "holds 1 node; only audits on 1 node that group linux selects")
	harness.Run(t, s.Env(), "describe", "compliance", "db1/file").Expect(0, "the directive enforces, but only audits here, because the machine itself can choose to get it: muster why db1/file")
	harness.Run(t, s.Env(), "why", "db1/file").Expect(0, "it enforces, but only audits on this node: group linux selects it by values that the machine can choose")
	s.Apply(fmt.Sprintf(trustPolicy, file, ", trusted: facts"))
	s.AwaitOutput("get compliance", "db1", "enforce", "100.00 %")
	harness.Run(t, s.Env(), "describe", "directive", "file").Expect(0, "holds 1 node\n")
}
