package compliance_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestNewMemberIsPending adds a node to the group of a policy directive, and expects the directive to be pending. It
// stays pending on the node until its interval and five minutes have passed without a run.
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
