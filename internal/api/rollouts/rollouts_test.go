package rollouts_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

const declared = `
{kind: Technique, metadata: {name: motd}, spec: {parameters: [{name: text}], methods: [{component: line, fileLines: {path: /etc/motd, lines: ["{{ .params.text }}"]}}]}}
---
{kind: Directive, metadata: {name: motd}, spec: {technique: motd, parameters: {text: %s}, rollout: {steps: [50%%], wait: 1m, approve: %v}}}
---
{kind: Policy, metadata: {name: motd}, spec: {directives: [motd], targets: {where: "true"}}}
`

// rolloutServer is a test server with two connected nodes, and with policy reports that the test makes up.
type rolloutServer struct {
	*apitest.Server
	unit model.UnitID
}

// request sends a request and returns the status and the body of the answer.
func (s *rolloutServer) request(method, path, token, body string) (int, string) {
	s.T.Helper()
	request, err := http.NewRequest(method, s.URL+"/api/v1/rollouts"+path, strings.NewReader(body))
	testenv.NoError(s.T, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	testenv.NoError(s.T, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testenv.NoError(s.T, err)
	return answer.StatusCode, string(text)
}

// expect sends a request, and compares the status and a part of the answer with expected values.
func (s *rolloutServer) expect(method, path, token, body string, status int, part string) {
	s.T.Helper()
	if got, text := s.request(method, path, token, body); got != status || !strings.Contains(text, part) {
		s.T.Errorf("%s %s: %d %s, want %d with %q", method, path, got, text, status, part)
	}
}

// report records one made-up compliance run on each test node, for the directive version on that node.
func (s *rolloutServer) report(status policy.Status) {
	for _, node := range s.Directory.UnitNodes(s.unit) {
		unit := s.Directory.SourceUnit(model.DirectiveSource(s.unit))
		codes := policy.NewCodes(1)
		codes.Set(0, status)
		run := reducer.Run{Unit: s.unit, Executed: s.Now().UnixNano(), Outcome: &reducer.Outcome{Definition: directory.DefinitionOnNode(s.Directory, unit, node).ID, Components: 1, Codes: codes}}
		run.SetTexts([]wire.ReportException{{Position: 0, Message: "no such line"}}, "")
		s.Runs[node] = []reducer.Run{run}
	}
}

// advanceRollouts lets the roll-out driver advance each roll-out once if the roll-out may continue.
func (s *rolloutServer) advanceRollouts() {
	s.T.Helper()
	testenv.NoError(s.T, s.RolloutDriver().AdvanceAll(s.T.Context()))
	testenv.NoError(s.T, s.Planner.CatchUp(s.T.Context()))
}

// TestUndoRestoresDeclarationWithoutSteps undoes a change that brought the steps of a directive, and expects success. The
// directive has no roll-out then.
func TestUndoRestoresDeclarationWithoutSteps(t *testing.T) {
	s := &rolloutServer{Server: apitest.NewServer(t)}
	s.Runs = map[model.NodeID][]reducer.Run{}
	s.JoinNode("a", nil)
	declaredFirst := strings.Replace(fmt.Sprintf(declared, "one", false), ", rollout: {steps: [50%], wait: 1m, approve: false}", "", 1)
	s.Apply(declaredFirst)
	s.unit, _ = s.Directory.UnitByName(directory.DirectiveKind, "default", "motd")
	s.Apply(fmt.Sprintf(declared, "two", false))
	s.advanceRollouts()
	s.expect("GET", "/default/motd", s.Token, "", 200, `"state":"running"`)
	s.expect("POST", "/default/motd/undo", s.Token, "{}", 200, `"state":"undone","reason":"the declaration is that of before the change, without steps"`)
	if d := s.Directory.SourceUnit(model.DirectiveSource(s.unit)).Definition.AsDirective(); d.Parameters["text"] != "one" {
		t.Errorf("after the undo %+v", d.Parameters)
	}
	s.expect("GET", "/default/motd", s.Token, "", 404, "directive motd has no roll-out")
	s.Apply(strings.Replace(declaredFirst, "text: one", "text: three", 1))
	entries := testenv.Value(s.Intent.Audit(t.Context(), intent.ChangeQuery{Kind: "Directive", Namespace: "default", Name: "motd", Limit: 2}, false))(t)
	s.expect("POST", "/default/motd/undo", s.Token, fmt.Sprintf(`{"to":%d}`, entries[1].Revision), 200, `"state":"undone"`)
}

// TestRolloutOperations calls all operations on roll-outs as several users, and expects success only with the
// needed rights. Another person approves a roll-out, and operators pause, continue, stop and undo it.
func TestRolloutOperations(t *testing.T) {
	s := &rolloutServer{Server: apitest.NewServer(t)}
	s.Runs = map[model.NodeID][]reducer.Run{}
	for _, name := range []string{"a", "b"} {
		s.JoinNode(name, nil)
		s.SetSession(name, &v1.AgentSession{})
	}
	s.Apply(fmt.Sprintf(declared, "one", false))
	s.unit, _ = s.Directory.UnitByName(directory.DirectiveKind, "default", "motd")
	s.report(policy.Compliant)
	login := func(name, role string) string {
		_, err := s.Access.CreateUser(t.Context(), intent.Actor{User: "admin"}, access.User{Name: name, Grants: access.Grants{Role: role}}, apitest.Password)
		testenv.NoError(t, err)
		text, _, err := s.Access.Login(t.Context(), name, apitest.Password, "local")
		testenv.NoError(t, err)
		return text
	}
	operator, bob := login("otto", access.Operator), login("bob", access.Admin)
	s.expect("GET", "", s.Token, "", 200, `"items":[]`)
	s.expect("GET", "/default/motd", s.Token, "", 404, "directive motd has no roll-out")
	s.expect("GET", "/default/none", s.Token, "", 404, "none")

	s.Advance(time.Hour)
	s.Apply(fmt.Sprintf(declared, "two", true))
	s.advanceRollouts()
	s.expect("GET", "/default/motd", operator, "", 200, `"state":"requested"`)
	s.expect("POST", "/default/motd/approve", operator, "{}", 403, "permission denied")
	s.expect("POST", "/default/motd/pause", operator, "{}", 409, "cannot pause the roll-out of motd: it is requested")
	s.expect("POST", "/default/motd/approve", s.Token, "{}", 403, "admin made the change, so another person has to approve it")
	s.expect("POST", "/default/motd/approve", bob, `{"to":1}`, 422, "only the action undo accepts a revision")
	s.expect("POST", "/default/motd/approve", bob, `{"message":"seen"}`, 200, `"approver":"bob"`)
	s.advanceRollouts()
	s.expect("POST", "/default/motd/pause", operator, "{}", 200, "paused by otto")
	s.report(policy.Compliant)
	s.Advance(time.Hour)
	s.advanceRollouts()
	s.expect("POST", "/default/motd/start", operator, "{}", 403, "permission denied")
	s.expect("POST", "/default/motd/start", bob, "{}", 200, "continued by bob")
	s.report(policy.NonCompliant)
	s.advanceRollouts()

	var shown v1.Rollout
	_, text := s.request("GET", "/default/motd", s.Token, "")
	testenv.NoError(t, json.Unmarshal([]byte(text), &shown))
	failed := shown.Failures[0].Node
	begun := time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)
	want := v1.Rollout{
		Namespace: "default", Directive: "motd", State: "stopped", Reason: "1 of 1 node with the new version failed, more than 5%: " + failed + ": line: non-compliant: no such line",
		By: "admin", Approver: "bob", StartedAt: begun, Base: shown.Base, Wait: "1m", MaxFailed: "5%", Nodes: 2, New: 1, Reported: 1, Failed: 1,
		Steps:    []v1.RolloutStep{{Step: "50%", StartedAt: begun, Nodes: 1}, {Step: "100%"}},
		Failures: []v1.RolloutFailure{{Node: failed, Reason: "line: non-compliant: no such line"}},
		First:    []string{"a", "b"}, Differences: []string{`parameters.text: "one" → "two"`},
	}
	if fmt.Sprintf("%+v", shown) != fmt.Sprintf("%+v", want) {
		t.Errorf("shown\n%+v, want\n%+v", shown, want)
	}
	if _, text := s.request("GET", "/default/motd", operator, ""); strings.Contains(text, "differences") {
		t.Errorf("an operator, who may not change the directive, sees the values of its parameters: %s", text)
	}
	s.expect("POST", "/default/motd/undo", bob, `{"message":"no such line"}`, 200, `"state":"undone"`)
	s.expect("GET", "", operator, "", 200, `"new":0`)
	if d := s.Directory.SourceUnit(model.DirectiveSource(s.unit)).Definition.AsDirective(); d.Parameters["text"] != "one" {
		t.Errorf("after the undo %+v", d.Parameters)
	}
	s.expect("POST", "/default/motd/undo", bob, `{}`, 409, "it is undone")
	s.expect("POST", "/default/motd/undo", bob, fmt.Sprintf(`{"to":%d}`, shown.Base-1), 409, "has changed since revision")
	s.expect("POST", "/default/motd/undo", bob, `{"to":1}`, 404, "did not exist at revision 1")
	entries, err := s.Intent.Audit(t.Context(), intent.ChangeQuery{Kind: "Directive", Namespace: "default", Name: "motd", Limit: 1}, false)
	if err != nil || entries[0].Actor.User != "bob" || entries[0].Actor.Message != "no such line" {
		t.Errorf("audit %+v, %v", entries, err)
	}

	// Nobody approves the change of a program by the own token.
	_, robot, err := s.Access.CreateToken(t.Context(), intent.Actor{User: "bob"}, access.AccessToken{User: "robot", Maker: "bob", Grants: access.Grants{Role: access.Admin}})
	testenv.NoError(t, err)
	changed, err := s.Intent.Get(t.Context(), intent.Key{Kind: "Directive", Namespace: "default", Name: "motd"})
	testenv.NoError(t, err)
	spec := changed.Spec.(*model.DirectiveSpec)
	spec.Parameters["text"], spec.Rollout.Approve = model.TextValue("three"), true
	_, err = s.Intent.Apply(t.Context(), intent.Actor{User: "robot", Maker: "bob"}, []model.Resource{*changed}, intent.ApplyOptions{Yes: true})
	testenv.NoError(t, err)
	testenv.NoError(t, s.Planner.CatchUp(t.Context()))
	testenv.NoError(t, s.Access.RevokeToken(t.Context(), intent.Actor{User: "bob"}, robot.ID))
	s.expect("POST", "/default/motd/approve", bob, "{}", 403, "robot made the change, so another person has to approve it")
	technique, err := s.Intent.Get(t.Context(), intent.Key{Kind: "Technique", Namespace: "default", Name: "motd"})
	testenv.NoError(t, err)
	technique.Spec.(*model.TechniqueSpec).Methods[0].FileLines.Path = "/etc/issue"
	_, err = s.Intent.Apply(t.Context(), intent.Actor{User: "carol"}, []model.Resource{*technique}, intent.ApplyOptions{Yes: true})
	testenv.NoError(t, err)
	testenv.NoError(t, s.Planner.CatchUp(t.Context()))
	s.expect("POST", "/default/motd/approve", bob, "{}", 403, "bob, carol, robot made the change")
	s.expect("POST", "/default/motd/approve", s.Token, "{}", 200, `"approver":"admin"`)
}

// TestSharedRolloutsAreHidden expects that viewers of another namespace see no roll-outs of the namespace
// "shared". It expects empty lists of roll-outs and of requests.
func TestSharedRolloutsAreHidden(t *testing.T) {
	s := &rolloutServer{Server: apitest.NewServer(t)}
	s.DeclareNodes("default", nil, "web1")
	s.Apply("{kind: Namespace, metadata: {name: shop}}")
	const policy = `
{kind: Technique, metadata: {name: motd, namespace: shared}, spec: {methods: [{component: file, filePresent: {path: /etc/%s}}]}}
---
{kind: Directive, metadata: {name: motd, namespace: shared}, spec: {technique: motd, rollout: {steps: [100%%], approve: true}}}
---
{kind: Policy, metadata: {name: motd, namespace: shared}, spec: {directives: [motd], targets: {where: "true"}}}
`
	s.Apply(fmt.Sprintf(policy, "motd"))
	s.Apply(fmt.Sprintf(policy, "issue"))
	_, err := s.Access.CreateUser(t.Context(), intent.Actor{User: "admin"}, access.User{Name: "finn", Grants: access.Grants{Bindings: map[string]string{"shop": access.Viewer}}}, apitest.Password)
	testenv.NoError(t, err)
	finn, _, err := s.Access.Login(t.Context(), "finn", apitest.Password, "local")
	testenv.NoError(t, err)
	for _, list := range []string{"", "/../review-requests"} {
		s.expect("GET", list, s.Token, "", 200, `"namespace":"shared"`)
		s.expect("GET", list, finn, "", 200, `"items":[]`)
	}
	s.expect("GET", "/shared/motd", finn, "", 403, "")
}
