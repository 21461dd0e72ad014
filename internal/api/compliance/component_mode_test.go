package compliance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestComponentsShowTheirModes runs an auditing policy directive, and expects the API to show each component's
// mode (audit or enforce). One component enforces; if the agent only audited it, the answer must tell the
// reason. An unknown status is refused.
func TestComponentsShowTheirModes(t *testing.T) {
	s := apitest.NewServer(t)
	s.JoinNode("n1", nil)
	s.Runs = map[model.NodeID][]reducer.Run{}
	s.Apply(`
{kind: Technique, metadata: {name: files}, spec: {methods: [{component: own, mode: enforce, filePresent: {path: /a}}, {component: other, filePresent: {path: /b}}]}}
---
{kind: Directive, metadata: {name: files}, spec: {technique: files, mode: audit}}
---
{kind: Policy, metadata: {name: files}, spec: {directives: [files], targets: {nodes: [n1]}}}
`)
	unit, _ := s.Directory.UnitByName(directory.DirectiveKind, "default", "files")
	node, _ := s.Directory.NodeByName("default", "n1")
	get := func(query string) (int, string) {
		t.Helper()
		request := testenv.Value(http.NewRequest(http.MethodGet, s.URL+"/api/v1/compliance?"+query, http.NoBody))(t)
		request.Header.Set("Authorization", "Bearer "+s.Token)
		answer := testenv.Value(http.DefaultClient.Do(request))(t)
		defer answer.Body.Close()
		return answer.StatusCode, string(testenv.Value(io.ReadAll(answer.Body))(t))
	}
	for _, c := range []struct {
		own    policy.Status
		modes  string
		reason string
	}{
		{policy.Repaired, "enforce audit", ""},
		{policy.NonCompliant, "audit audit", "component own enforces, but the agent only audits: start the agent with --policy-enforce"},
		{policy.CouldNotCheck, "enforce audit", ""},
	} {
		codes := policy.NewCodes(2)
		codes.Set(0, c.own)
		codes.Set(1, policy.Compliant)
		s.Runs[node] = []reducer.Run{{Unit: unit, Executed: s.Now().UnixNano(), Outcome: &reducer.Outcome{Definition: s.Directory.SourceUnit(model.DirectiveSource(unit)).Definition.ID, Components: 2, Codes: codes}}}
		_, text := get("details=true")
		var list v1.ComplianceList
		testenv.NoError(t, json.Unmarshal([]byte(text), &list))
		one := &list.Items[0]
		var modes []string
		for _, x := range one.Components {
			modes = append(modes, x.Mode)
		}
		if got := strings.Join(modes, " "); got != c.modes || one.Mode != "audit" || one.Reason != c.reason {
			t.Errorf("%s: modes %s of %s, reason %q", c.own, got, one.Mode, one.Reason)
		}
	}
	for status, want := range map[string]int{"no report": 200, "overridden": 200, "broken": 422} {
		if code, text := get("status=" + url.QueryEscape(status)); code != want || want == 422 && !strings.Contains(text, "not applicable, compliant") {
			t.Errorf("status %s: %d %s", status, code, text)
		}
	}
}
