//go:build linux

package test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// gracePolicy audits a file that is missing.
const gracePolicy = `
{kind: Technique, metadata: {name: file}, spec: {methods: [{component: file, filePresent: {path: %q}}]}}
---
{kind: Directive, metadata: {name: file}, spec: {technique: file, interval: 10s, grace: %s}}
---
{kind: Policy, metadata: {name: baseline}, spec: {directives: [file], targets: {groups: [all]}}}
`

// TestGracePeriodDelaysProblem lets a node violate a directive, and expects a problem only after the grace
// period. The node does not fulfil the directive, and is not compliant at once. A restarted agent has had the
// directive for longer.
func TestGracePeriodDelaysProblem(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	s.StartAgent("db1")
	s.AwaitOutput("get nodes", "db1")
	began, file := time.Now(), filepath.Join(t.TempDir(), "missing")
	s.Apply(fmt.Sprintf(gracePolicy, file, "25s"))
	s.AwaitOutput("get compliance", "db1", "0.00 %", "non-compliant")
	harness.Run(t, s.Env(), "why", "db1/file").Expect(0, "is no problem for 25s")
	s.AwaitOutput("get problems --open", "db1", "file:compliance")
	list, err := s.Client().Problems.List(t.Context(), "", "db1", "file:compliance", true, 0, "")
	require(t, err == nil && len(list.Items) == 1, "problems: %v %+v", err, list.Items)
	if after := list.Items[0].Opened.Sub(began); after < 25*time.Second {
		t.Errorf("the problem opened %s after the directive", after)
	}
}
