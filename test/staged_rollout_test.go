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

// stagedPolicy holds all nodes to a file that has the line of a version. Changes of the version reach them in steps.
const stagedPolicy = `
{kind: Technique, metadata: {name: release}, spec: {parameters: [{name: version}], methods: [{component: line, fileLines: {path: %q, lines: ["{{ .params.version }}"]}}]}}
---
{kind: Directive, metadata: {name: release}, spec: {technique: release, parameters: {version: %s}, interval: 10s, rollout: {steps: [canary, 60%%], wait: 2s, maxFailed: 20%%, approve: %v}}}
---
{kind: Policy, metadata: {name: release}, spec: {directives: [release], targets: {groups: [all]}}}
---
{kind: Group, metadata: {name: canary}, spec: {nodes: [n2]}}
`

// TestRolloutProgressesAndRollsBack rolls a directive change out to five agents, and expects steps in order.
// The roll-out stops at a failure, and goes back on request. A good change reaches them in its steps, also with
// kill -9 after each; a bad one stops at its first node, and undo restores it; one that needs approval waits
// for another person.
func TestRolloutProgressesAndRollsBack(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	file := filepath.Join(t.TempDir(), "release")
	testenv.NoError(t, os.WriteFile(file, []byte("v1\nv2\nv3\n"), 0o600))
	nodes := []string{"n1", "n2", "n3", "n4", "n5"}
	for _, name := range nodes {
		s.StartAgent(name)
	}
	s.Apply(fmt.Sprintf(stagedPolicy, file, "v1", false))
	compliant := func() (with map[string]int, failed int) {
		l, err := s.API.Compliance(t.Context(), v1.ComplianceFilter{Namespace: "default", Directive: "release", Details: true}, 100, "")
		require(t, err == nil, "compliance: %v", err)
		with = map[string]int{}
		for _, one := range l.Items {
			with[one.Status]++
		}
		return with, with["non-compliant"]
	}
	awaitAll := func(step string) {
		t.Helper()
		harness.Until(t, 90*time.Second, step+": all nodes are compliant", func() (string, bool) {
			with, _ := compliant()
			return fmt.Sprint(with), with["compliant"] == len(nodes)
		})
	}
	awaitAll("a new directive")
	harness.Run(t, s.Env(), "rollout", "list").Expect(0, "no directive has had a roll-out")
	harness.Run(t, s.Env(), "rollout", "show", "release").Expect(3, "directive release has no roll-out")

	// The server dies after each step.
	s.Apply(fmt.Sprintf(stagedPolicy, file, "v2", false))
	for _, step := range []string{"canary (1 of 3)", "60% (2 of 3)", "100% (3 of 3)"} {
		s.AwaitOutput("rollout list", "release", step)
		s.Kill()
		s.Launch()
		s.WaitReady(40 * time.Second)
	}
	s.AwaitOutput("rollout show release", "done", "all 5 nodes have the new version")
	r, err := s.API.Rollouts.Get(t.Context(), "default", "release")
	require(t, err == nil && len(r.Steps) == 3, "roll-out: %v %+v", err, r)
	for i, want := range []int{1, 3, 5} {
		if got := r.Steps[i].Nodes; got != want && !(i == 1 && got == want+1) || i > 0 && // the canary may be behind the first three
			r.Steps[i].StartedAt.Sub(r.Steps[i-1].StartedAt) < 2*time.Second {
			t.Errorf("step %d: %+v", i, r.Steps)
		}
	}
	awaitAll("the good change")
	audit := s.CLI("audit")
	for _, text := range []string{"roll-out of default/release: step canary, the new version is on 1 node", "step 100%, the new version is on 5 nodes", "done: all 5 nodes have the new version"} {
		if strings.Count(audit, text) != 1 {
			t.Errorf("the audit has %q %d times:\n%s", text, strings.Count(audit, text), audit)
		}
	}

	// A bad change.
	s.Apply(fmt.Sprintf(stagedPolicy, file, "none", false))
	s.AwaitOutput("rollout show release", "stopped", "1 of 1 node with the new version failed, more than 20%: n2: line: non-compliant", "1 of 5 nodes have the new version")
	s.AwaitOutput("rollout list", "canary (1 of 3)", "1 of 5")
	if with, failed := compliant(); failed != 1 || with["compliant"] != 4 {
		t.Errorf("after the stop %v", with)
	}
	s.AwaitOutput("status", "the roll-out of directive default/release stopped: 1 of 1 node with the new version failed")
	harness.Run(t, s.Env(), "rollout", "pause", "release").Expect(4, "cannot pause the roll-out of release: it is stopped")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	harness.Run(t, s.Env(), "rollout", "undo", "release", "-m", "no such version").Expect(0, "the roll-out of release is undone")
	awaitAll("undo")
	harness.Run(t, s.Env(), "describe", "directive", "release").Expect(0, "version  v2")
	harness.Run(t, s.Env(), "audit", "-o", "json").Expect(0, "no such version")

	// A change that another person has to approve.
	s.Apply(fmt.Sprintf(stagedPolicy, file, "v3", true))
	s.AwaitOutput("rollout list", "requested", "0 of 5")
	harness.Run(t, s.Env(), "rollout", "approve", "release").Expect(6, "admin made the change, so another person has to approve it")
	harness.Run(t, s.Env(), "rollout", "start", "release").Expect(4, "another person has to approve it first")
	bob := loginBob(t, s)
	harness.Run(t, bob, "rollout", "approve", "release", "-m", "seen").Expect(0, "the roll-out of release is running")
	harness.Run(t, bob, "rollout", "pause", "release").Expect(0, "paused by bob")
	s.AwaitOutput("rollout show release", "paused", "approved", "by bob")
	harness.Run(t, bob, "rollout", "start", "release").Expect(0, "continued by bob")
	s.AwaitOutput("rollout list", "done", "5 of 5")

	// Back after the end: at once.
	harness.Run(t, s.Env(), "rollout", "undo", "release").Expect(0, "undone by admin")
	harness.Run(t, s.Env(), "describe", "directive", "release").Expect(0, "version  v2")
	if r, err = s.API.Rollouts.Get(t.Context(), "default", "release"); err != nil || r.New != 0 {
		t.Errorf("after the undo: %v %+v", err, r)
	}
	awaitAll("undo after the end")
}

// loginBob creates a second administrator named bob, and logs in as bob. It returns the environment variables
// with which commands run as bob.
func loginBob(t *testing.T, s *harness.Server) (env []string) {
	t.Helper()
	password := tempFile(t, "password", "correct horse battery")
	s.CLI("auth", "user", "create", "bob", "--role", "admin", "--password-file", password)
	env = []string{"MUSTER_CONTEXT=" + filepath.Join(t.TempDir(), "context")}
	harness.Run(t, env, "login", "https://"+s.Listen, "--ca", filepath.Join(s.Data, "pki", "ca.crt"), "-u", "bob", "--password-file", password).Expect(0)
	return env
}
