//go:build linux

package test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestClonedAgentIsRefused copies an agent to a second machine, and expects the copy to be refused. The error has a
// command to type, and an event names both machines.
func TestClonedAgentIsRefused(t *testing.T) {
	t.Parallel()
	const one, other = "3f2a91c0aaaaaaaaaaaaaaaaaaaaaaaa", "77ab12cdbbbbbbbbbbbbbbbbbbbbbbbb"
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	first := s.NewAgent("image")
	first.UseMachineIDs(one, "boot-1")
	s.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: where}\nspec:\n  targets: {nodes: [image]}\n  interval: 1s\n" +
		"  command: cat /etc/machine-id; grep -q " + one + " /etc/machine-id || exit 2\n")
	first.Start()
	results := func(more uint64) {
		t.Helper()
		want := getEvent(t, s.API, "image", "where").Results + more
		awaitEvent(t, s.API, "image", "where", "results are applied", func(e v1.Event) bool { return e.Results >= want })
	}
	results(1)
	first.Stop()
	second := first.Clone()
	second.UseMachineIDs(other, "boot-2")
	first.Start()
	results(1)

	second.Start()
	second.AwaitLog("(clone)", "muster-agent reset-identity")
	results(3)
	told := ""
	harness.Until(t, 20*time.Second, "the identity event has a description", func() (string, bool) {
		r := harness.Run(t, s.Env(), "describe", "event", "image/"+model.BuiltinCheckName(model.IdentityCheck))
		told = r.Out
		return r.Out + r.Errors, r.Code == 0
	})
	expectTexts(t, strings.ReplaceAll(told, "\n", " "), "127.0.0.1 (machine "+one[:8], "127.0.0.1 (machine "+other[:8], "reset-identity", "CRITICAL")
	if log := s.Log(); !strings.Contains(log, "two machines use one identity") || !strings.Contains(log, "node=image") {
		t.Errorf("the server's log does not tell:\n%s", log)
	}
	got := statusChanges(t, s.API, "image", "where")
	assert(t, len(got) == 0, "the clone's results count: %+v", got)
	e := getEvent(t, s.API, "image", "where")
	assert(t, e.Status == model.OK && strings.Contains(e.Output, one), "the check says %+v", e)
	expectNoTexts(t, first.Log(), "duplicate")
	if n := len(problemsOf(t, s.API, "image")); n != 1 { // the problem of the identity event
		t.Errorf("%d problems", n)
	}
}

// TestSecondAgentOfOneIdentityTakesOver starts a second agent with the same identity, and expects only the
// second agent's session. The first is refused while the second is connected. Every run is applied once, and no
// node is reported as down.
func TestSecondAgentOfOneIdentityTakesOver(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s")
	first, runs := s.NewAgent("image"), s.NewCountingCheck("count", "image")
	first.Start()
	runs.AwaitRuns(2)
	awaitLastResult(t, s.API, "image", "count", runs)
	first.Kill()
	second := first.Clone()
	runs.Unblock()

	first.Start()
	runs.AwaitRuns(2)
	second.Start()
	said := func(a *harness.Agent, words ...string) {
		t.Helper()
		harness.Until(t, 30*time.Second, "who is sent away hears why", func() (string, bool) {
			log := a.Log()
			for _, word := range append(words, "muster-agent reset-identity") {
				if !strings.Contains(log, word) {
					return log, false
				}
			}
			return log, true
		})
	}
	said(first, "(duplicate)", "two agents have the same identity")
	runs.AwaitRuns(2)
	again := func(a *harness.Agent) { // a restarted agent need not wait for its next attempt
		t.Helper()
		runs.Block()
		sleep(t.Context(), 2*time.Second) // longer than the spool's linger before a write
		a.Kill()
		a.Start()
	}
	again(first)
	said(first, "(clone)", "another machine has the identity of node image")
	awaitEvent(t, s.API, "image", model.BuiltinCheckName(model.IdentityCheck), "the identity event has a description", func(e v1.Event) bool { return e.Status == model.Critical })
	runs.Block()
	sleep(t.Context(), 2*time.Second) // until the second agent has sent its results
	second.Kill()
	again(first)
	harness.Until(t, 30*time.Second, "every run of both agents is applied", func() (string, bool) {
		e := getEvent(t, s.API, "image", "count")
		require(t, e.Results <= runs.Runs(), "%d runs, %d results applied", runs.Runs(), e.Results)
		return fmt.Sprintf("%d runs, %+v", runs.Runs(), e), e.Results == runs.Runs()
	})
	e := getEvent(t, s.API, "image", "count")
	assert(t, e.Lost == 0, "%d results were lost", e.Lost)
	expectNoMalformedMessages(t, s)
}

// certificateOf reads an agent's certificate from its state folder.
func certificateOf(t *testing.T, a *harness.Agent) *x509.Certificate {
	t.Helper()
	data := readFile(t, filepath.Join(a.State, "identity.json"))
	var kept struct{ Certificate []byte }
	decodeJSON(t, data, &kept)
	block, _ := pem.Decode(kept.Certificate)
	require(t, block != nil, "no certificate in %s", data)
	cert := testenv.Value(x509.ParseCertificate(block.Bytes))(t)
	return cert
}

// TestAgentRenewsItsCertificate expects an agent to renew its certificate during a session and after expiry.
// The agent of a deleted node is told what to type.
func TestAgentRenewsItsCertificate(t *testing.T) {
	skipIfShort(t, "certificates run out")
	t.Parallel()
	const life = 12 * time.Second
	s := harness.StartServer(t, "--certificate-life", life.String())
	agent, runs := s.NewAgent("web01"), s.NewCountingCheck("count", "web01")
	agent.Start()
	runs.AwaitRuns(1)
	first := certificateOf(t, agent)
	if left := time.Until(first.NotAfter); left > life {
		t.Errorf("the certificate is good for %s", left)
	}
	renewed := func(after *x509.Certificate) *x509.Certificate {
		t.Helper()
		var now *x509.Certificate
		harness.Until(t, 60*time.Second, "the certificate is renewed", func() (string, bool) {
			now = certificateOf(t, agent)
			return now.NotAfter.String(), now.NotAfter.After(after.NotAfter)
		})
		return now
	}
	second := renewed(first)
	expectEqual(t, "sessions were opened", strings.Count(agent.Log(), "msg=connected"), 1)
	assert(t, string(second.RawSubjectPublicKeyInfo) == string(first.RawSubjectPublicKeyInfo), "the key is another one")
	if n := s.Metric("muster_certificate_renewals_total", `outcome="renewed"`); n < 1 {
		t.Errorf("%g renewals are counted", n)
	}

	s.Stop()
	harness.Until(t, 60*time.Second, "the certificate has expired", func() (string, bool) {
		left := time.Until(certificateOf(t, agent).NotAfter)
		return left.String(), left < -time.Second
	})
	expired := certificateOf(t, agent)
	agent.Stop()  // stopped, not killed, so that no run is lost
	agent.Start() // restarted, so that its next attempt is soon
	s.Start()
	renewed(expired)
	awaitAllResults(t, s.API, "web01", "count", runs)
	if n := s.Metric("muster_certificate_renewals_total", `outcome="renewed_expired"`); n < 1 {
		t.Errorf("%g renewals of what has expired are counted", n)
	}

	s.Try("delete", "node", "web01", "--yes").Expect(0)
	agent.AwaitLog("the server refused to renew this machine's certificate", "muster node token")
	harness.Until(t, 10*time.Second, "the refused renewal is counted", func() (string, bool) {
		n := s.Metric("muster_certificate_renewals_total", `outcome="barred"`) + s.Metric("muster_certificate_renewals_total", `outcome="unknown"`)
		return fmt.Sprint(n), n > 0
	})
	e := getEvent(t, s.API, "web01", model.KeepaliveCheckName)
	assert(t, e.Results == 0, "the node is still there: %+v", e)
}
