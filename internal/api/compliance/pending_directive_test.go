package compliance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestOneShotIsNoReportAfterItsTime declares one-shot directives that no node runs. It expects each to be pending until
// its time, spread and timeout are over, and then no report.
func TestOneShotIsNoReportAfterItsTime(t *testing.T) {
	s := apitest.NewServer(t)
	s.DeclareNodes("default", nil, "a")
	now := s.Now()
	at := func(in time.Duration) string { return now.Add(in).UTC().Format(time.RFC3339) }
	s.Apply(fmt.Sprintf(`
{kind: Technique, metadata: {name: motd}, spec: {multiInstance: true, methods: [{component: file, filePresent: {path: /etc/motd}}]}}
---
{kind: Directive, metadata: {name: now}, spec: {technique: motd, oneShot: {}, timeout: 1m}}
---
{kind: Directive, metadata: {name: from}, spec: {technique: motd, oneShot: {from: "%s"}, splay: 1h, timeout: 1m}}
---
{kind: Directive, metadata: {name: until}, spec: {technique: motd, oneShot: {until: "%s"}, timeout: 1m}}
---
{kind: Directive, metadata: {name: over}, spec: {technique: motd, oneShot: {until: "%s"}, timeout: 1m}}
---
{kind: Policy, metadata: {name: motd}, spec: {directives: [now, from, until, over], targets: {nodes: [a]}}}
`, at(time.Hour), at(2*time.Hour), at(-time.Hour)))
	expect := func(from, atOnce, over, until string) {
		t.Helper()
		request := testenv.Value(http.NewRequest(http.MethodGet, s.URL+"/api/v1/compliance", http.NoBody))(t)
		request.Header.Set("Authorization", "Bearer "+s.Token)
		answer := testenv.Value(http.DefaultClient.Do(request))(t)
		defer answer.Body.Close()
		var list v1.ComplianceList
		testenv.NoError(t, json.NewDecoder(answer.Body).Decode(&list))
		var got []string
		for _, one := range list.Items {
			got = append(got, one.Directive+" "+one.Status)
		}
		if want := []string{"from " + from, "now " + atOnce, "over " + over, "until " + until}; !slices.Equal(got, want) {
			t.Errorf("after %s: %s", s.Now().Sub(now), got)
		}
	}
	expect("pending", "pending", "pending", "pending")
	s.Advance(7 * time.Minute)
	expect("pending", "no report", "pending", "pending")
	s.Advance(2 * time.Hour)
	expect("no report", "no report", "pending", "no report")
}

// TestNewMemberIsPending adds a node to a policy's target group, and expects the directive pending on the new
// node. It stays pending on the node until its interval and five minutes have passed without a run.
func TestNewMemberIsPending(t *testing.T) {
	s := apitest.NewServer(t)
	s.DeclareNodes("default", nil, "old", "new")
	group := func(nodes string) {
		s.Apply(fmt.Sprintf(`
{kind: Technique, metadata: {name: motd}, spec: {methods: [{component: file, filePresent: {path: /etc/motd}}]}}
---
{kind: Directive, metadata: {name: motd}, spec: {technique: motd, interval: 10m}}
---
{kind: Policy, metadata: {name: motd}, spec: {directives: [motd], targets: {groups: [web]}}}
---
{kind: Group, metadata: {name: web}, spec: {where: 'node.name in [%s]'}}
`, nodes))
	}
	expect := func(statuses ...string) {
		t.Helper()
		request := testenv.Value(http.NewRequest(http.MethodGet, s.URL+"/api/v1/compliance", http.NoBody))(t)
		request.Header.Set("Authorization", "Bearer "+s.Token)
		answer := testenv.Value(http.DefaultClient.Do(request))(t)
		defer answer.Body.Close()
		text := string(testenv.Value(io.ReadAll(answer.Body))(t))
		for _, status := range statuses {
			if !strings.Contains(text, `"status":"`+status+`"`) {
				t.Errorf("no status %q: %s", status, text)
			}
		}
		if n := strings.Count(text, `"directive":`); n != len(statuses) {
			t.Errorf("%d rows, want %d: %s", n, len(statuses), text)
		}
	}
	group(`"old"`)
	expect("pending")
	s.Advance(time.Hour)
	expect("no report")
	group(`"old", "new"`)
	expect("no report", "pending")
	s.Advance(15 * time.Minute)
	expect("no report", "pending")
	s.Advance(time.Second)
	expect("no report", "no report")
	group(`"old"`)
	group(`"old", "new"`)
	expect("no report", "pending") // back again
}
