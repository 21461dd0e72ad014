package rollouts_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReviewRequestsAreListed requests the deletion of a policy that needs approval, and expects the request in
// the list. The request, with its differences, is in the list of people who may read all its namespaces. It
// leaves the list after a week, or when another person carries it out.
func TestReviewRequestsAreListed(t *testing.T) {
	s := &rolloutServer{Server: apitest.NewServer(t)}
	s.DeclareNodes("default", nil, "web1")
	s.Apply(`
{kind: Namespace, metadata: {name: shop}}
---
{kind: Technique, metadata: {name: motd}, spec: {methods: [{component: file, filePresent: {path: /etc/motd}}]}}
---
{kind: Directive, metadata: {name: motd}, spec: {technique: motd}}
---
{kind: Policy, metadata: {name: motd}, spec: {directives: [motd], targets: {groups: [web]}}}
---
{kind: Group, metadata: {name: web}, spec: {nodes: [web1], review: true}}
`)
	login := func(name string, grants access.Grants) string {
		_, err := s.Access.CreateUser(t.Context(), intent.Actor{User: "admin"}, access.User{Name: name, Grants: grants}, apitest.Password)
		testenv.NoError(t, err)
		token, _, err := s.Access.Login(t.Context(), name, apitest.Password, "local")
		testenv.NoError(t, err)
		return token
	}
	reader, foreign := login("rita", access.Grants{Role: access.Viewer}), login("finn", access.Grants{Bindings: map[string]string{"shop": access.Admin}})
	remove := func(by string) error {
		_, err := s.Intent.Delete(t.Context(), intent.Actor{User: by, Message: "too loud"}, []intent.Key{{Kind: "Policy", Namespace: "default", Name: "motd"}}, intent.ApplyOptions{Yes: true})
		return err
	}
	const list = "/../review-requests"
	s.expect("GET", list, reader, "", 200, `"items":[]`)
	if err := remove("admin"); model.ClassOf(err) != model.Guarded {
		t.Fatal(err)
	}
	for token, want := range map[string]string{reader: `"command":"muster delete policy/motd"`, foreign: `"items":[]`} {
		s.expect("GET", list, token, "", 200, want)
	}
	_, text := s.request("GET", list, reader, "")
	var found v1.ReviewRequestList
	testenv.NoError(t, json.Unmarshal([]byte(text), &found))
	if len(found.Items) != 1 || found.Items[0].By != "admin" || found.Items[0].Message != "too loud" || found.Items[0].NodeCount != 1 || found.Items[0].Changes[0].Diff != "" {
		t.Fatalf("%s", text)
	}
	one := list + "/" + found.Items[0].ID
	s.expect("GET", one, foreign, "", 404, "no change that awaits approval has the id")
	if _, text := s.request("GET", one, reader, ""); !strings.Contains(text, `-  name: motd`) || !strings.Contains(text, `"op":"deleted"`) {
		t.Errorf("one request: %s", text)
	}
	s.Advance(8 * 24 * time.Hour)
	s.expect("GET", list, s.Token, "", 200, `"items":[]`)
	if err := remove("bob"); model.ClassOf(err) != model.Guarded {
		t.Fatalf("a request that has ended: %v", err)
	}
	testenv.NoError(t, remove("admin"))
	s.expect("GET", list, s.Token, "", 200, `"items":[]`)
}
