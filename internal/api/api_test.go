package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

const fleetYAML = `
apiVersion: muster/v1
kind: Check
metadata: {name: disk}
spec: {targets: {groups: [all]}, interval: 60s, command: check_disk, alert: {failAfter: 2}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: load}
spec: {targets: {where: 'node.labels.env == "prod"'}, interval: 30s, command: [check_load, -w, "5"]}
`

// newTestClient returns a client of the test server that sends the given token.
func newTestClient(t *testing.T, r *apitest.Server, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Context{Server: r.URL, Token: token})
	testenv.NoError(t, err)
	return c
}

// sendRequest makes one request and returns status, header and body.
func sendRequest(t *testing.T, r *apitest.Server, method, path, token, body string, header map[string]string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequest(method, r.URL+path, strings.NewReader(body))
	testenv.NoError(t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for k, v := range header {
		request.Header.Set(k, v)
	}
	answer, err := http.DefaultClient.Do(request)
	testenv.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	testenv.NoError(t, err)
	return answer.StatusCode, answer.Header, string(data)
}

// assertAnswer sends a request, and fails the test unless the answer has the expected status and text.
func assertAnswer(t *testing.T, r *apitest.Server, status int, contains, method, path, token, body string, header map[string]string) {
	t.Helper()
	got, _, answer := sendRequest(t, r, method, path, token, body, header)
	if got != status || !strings.Contains(answer, contains) {
		t.Errorf("%s %s %v: got %d %s, expected %d %q", method, path, header, got, answer, status, contains)
	}
}

// assertRefused returns a function that fails the test unless a call returned the expected error class and
// text. The error must have the given class and contain the given text.
func assertRefused(t *testing.T, class model.Class, contains string) func(result any, err error) {
	return func(_ any, err error) {
		t.Helper()
		if model.ClassOf(err) != class || !strings.Contains(err.Error(), contains) {
			t.Errorf("got error %v, expected class %s with %q", err, class.Label(), contains)
		}
	}
}

// TestEveryPrivateOperationNeedsAToken calls every operation without a token and with a wrong token, and expects
// status 401.
func TestEveryPrivateOperationNeedsAToken(t *testing.T) {
	r := apitest.NewServer(t)
	_, _, page := sendRequest(t, r, "GET", "/api/v1/openapi.json", r.Token, "", nil)
	var spec struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(page), &spec); err != nil || len(spec.Paths) < 20 {
		t.Fatalf("OpenAPI page: %v, %d paths", err, len(spec.Paths))
	}
	asked := 0
	for path, operations := range spec.Paths {
		for method := range operations {
			if path == "/api/v1/login" {
				continue
			}
			path := strings.NewReplacer("{namespace}", "default", "{name}", "x", "{node}", "x", "{check}", "x", "{id}", "x").Replace(path)
			for _, token := range []string{"", "mt1.wrong"} {
				status, header, body := sendRequest(t, r, strings.ToUpper(method), path, token, "", nil)
				if status != 401 || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "muster login") {
					t.Errorf("%s %s with token %q: %d %s %s", method, path, token, status, header.Get("Content-Type"), body)
				}
				asked++
			}
		}
	}
	if asked < 60 {
		t.Errorf("only %d operations were asked", asked)
	}
	for _, path := range []string{"/api/v1/openapi.json", "/api/v1/openapi.yaml", "/", "/metrics", "/debug/pprof/", "/api/v2"} {
		assertAnswer(t, r, 401, "", "GET", path, "", "", nil)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		assertAnswer(t, r, 200, "", "GET", path, "", "", nil)
	}
	r.NotReady = []string{"the disk of the journal is full"}
	assertAnswer(t, r, 503, "disk of the journal", "GET", "/readyz", "", "", nil)
}

// TestLoginTokensAndRoles checks login, expiry of a viewer's token, logout, and the throttle after wrong passwords.
func TestLoginTokensAndRoles(t *testing.T) {
	r := apitest.NewServer(t)
	ctx := context.Background()
	c := newTestClient(t, r, "")
	assertRefused(t, model.Unauthenticated, "")(c.Access.Login(ctx, "admin", "wrong password"))
	if _, err := c.Access.Login(ctx, "admin", apitest.Password); err != nil {
		t.Fatal(err)
	}
	viewer, err := c.Access.CreateToken(ctx, v1.TokenRequest{Note: "dashboard", ExpiresIn: 3600})
	if err != nil || viewer.Role != access.Viewer || viewer.Secret == "" {
		t.Fatalf("token: %+v %v", viewer, err)
	}
	look := newTestClient(t, r, viewer.Secret)
	if me, err := look.Access.WhoAmI(ctx); err != nil || me.User != "admin" || me.Role != access.Viewer {
		t.Fatalf("me: %+v %v", me, err)
	}
	assertRefused(t, model.Forbidden, "")(look.Access.CreateToken(ctx, v1.TokenRequest{}))
	r.Advance(2 * time.Hour)
	assertRefused(t, model.Unauthenticated, "")(look.Access.WhoAmI(ctx))
	if err := c.Access.RevokeToken(ctx, viewer.ID); err != nil {
		t.Error(err)
	}
	testenv.NoError(t, c.Access.Logout(ctx))
	assertRefused(t, model.Unauthenticated, "")(c.Access.WhoAmI(ctx))
	for range 20 { // right passwords are no attempts
		if _, err := c.Access.Login(ctx, "admin", apitest.Password); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		_, err = c.Access.Login(ctx, "admin", "guess")
	}
	if model.ClassOf(err) != model.Limited {
		t.Errorf("wrong passwords are not throttled: %v", err)
	}
}

// TestTokensAreDeletedWithTheirCreator deletes the user who created an API token, and expects the deletion of the token. The
// audit must show that user.
func TestTokensAreDeletedWithTheirCreator(t *testing.T) {
	r := apitest.NewServer(t)
	ctx := t.Context()
	admin := newTestClient(t, r, r.Token)
	testenv.Value(admin.Access.CreateUser(ctx, v1.UserRequest{Name: "mallory", UserGrants: v1.UserGrants{Role: access.Admin}, Password: "battery staple"}))(t)
	mallory := newTestClient(t, r, "")
	testenv.Value(mallory.Access.Login(ctx, "mallory", "battery staple"))(t)
	for name, class := range map[string]model.Class{"admin": model.Forbidden, "server": model.Invalid, "local": model.Invalid, "a\u0085b": model.Invalid, "a b": model.Invalid} {
		assertRefused(t, class, "")(mallory.Access.CreateToken(ctx, v1.TokenRequest{User: name}))
	}
	first := testenv.Value(mallory.Access.CreateToken(ctx, v1.TokenRequest{User: "ci", Role: access.Admin, Note: "builds"}))(t)
	second := testenv.Value(newTestClient(t, r, first.Secret).Access.CreateToken(ctx, v1.TokenRequest{User: "deploy", Role: access.Operator}))(t)
	if first.Maker != "mallory" || second.Maker != "mallory" {
		t.Errorf("made by %q and %q", first.Maker, second.Maker)
	}
	join := testenv.Value(mallory.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{}))(t)
	changes := testenv.Value(admin.Resources.Changes(ctx, "", "", "", 20, ""))(t)
	if !slices.ContainsFunc(changes.Items, func(c v1.Change) bool {
		return c.Kind == "token" && c.User == "mallory" && c.Message == "token ci, created by mallory, role admin: builds"
	}) {
		t.Errorf("the audit: %+v", changes.Items)
	}
	_, err := admin.Access.DeleteUser(ctx, "mallory", false)
	for _, want := range []string{"token " + first.ID + " (ci, admin)", "token " + second.ID + " (deploy, operator)", "join token " + join.ID} {
		if model.ClassOf(err) != model.Guarded || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	testenv.Value(newTestClient(t, r, second.Secret).Access.WhoAmI(ctx))(t)
	testenv.Value(admin.Access.DeleteUser(ctx, "mallory", true))(t)
	for _, secret := range []string{first.Secret, second.Secret} {
		assertRefused(t, model.Unauthenticated, "")(newTestClient(t, r, secret).Access.WhoAmI(ctx))
	}
	if list := testenv.Value(admin.Enrolment.Tokens(ctx))(t); len(list.Items) != 0 {
		t.Errorf("join tokens: %+v", list.Items)
	}
}

// TestResourcesAreAppliedReadAndDeleted applies, reads and deletes resources with the API client, and compares the
// answers.
func TestResourcesAreAppliedReadAndDeleted(t *testing.T) {
	r := apitest.NewServer(t)
	ctx := context.Background()
	r.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02", "web03")
	c := newTestClient(t, r, r.Token)
	check := json.RawMessage(`{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"disk","labels":{"team":"a"}},"spec":{"targets":{"groups":["all"]},"interval":"60s","command":"check_disk"}}`)

	dry, err := c.Resources.Apply(ctx, v1.ApplyRequest{ChangeOptions: v1.ChangeOptions{DryRun: true}, Resources: []json.RawMessage{check}})
	if err != nil || dry.Affected != 3 || dry.Outcomes[0].Op != "created" {
		t.Fatalf("dry run: %+v %v", dry, err)
	}
	k := kind.Check().KindInfo
	if _, _, err := c.Resources.Get(ctx, k, "default", "disk"); model.ClassOf(err) != model.NotFound {
		t.Fatalf("a dry run created the resource: %v", err)
	}
	done, err := c.Resources.Apply(ctx, v1.ApplyRequest{ChangeOptions: v1.ChangeOptions{Message: "watch disks"}, Resources: []json.RawMessage{check}})
	if err != nil || done.Outcomes[0].Note != "runs on 3 nodes; first results within 60 s; timeout 60 s by default" {
		t.Fatalf("apply: %+v %v", done, err)
	}
	again, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check}})
	if err != nil || again.Outcomes[0].Op != "unchanged" {
		t.Fatalf("apply again: %+v %v", again, err)
	}

	// Optimistic concurrency.
	path := "/api/v1/checks/default/disk"
	_, header, body := sendRequest(t, r, "GET", path, r.Token, "", nil)
	tag := header.Get("ETag")
	assertAnswer(t, r, 304, "", "GET", path, r.Token, "", map[string]string{"If-None-Match": tag})
	edited := strings.Replace(body, `"1m"`, `"30s"`, 1)
	if edited == body {
		t.Fatalf("no interval in %s", body)
	}
	if status, header, text := sendRequest(t, r, "PUT", path+"?dryRun=true", r.Token, edited, map[string]string{"If-Match": tag}); status != 200 || header.Get("ETag") != "" {
		t.Fatalf("dry run of a PUT: %d %v %s", status, header, text)
	}
	for _, wrong := range []string{"W/" + tag, `"stale"`, "stale", `"a", W/"b"`} {
		assertAnswer(t, r, 412, "", "PUT", path, r.Token, edited, map[string]string{"If-Match": wrong})
	}
	status, header, text := sendRequest(t, r, "PUT", path+"?message=faster", r.Token, edited, map[string]string{"If-Match": `"stale", ` + tag})
	if status != 200 {
		t.Fatalf("PUT: %d %s", status, text)
	}
	// The ETag of a PUT is that of the next GET, and good for the next PUT.
	if _, got, _ := sendRequest(t, r, "GET", path, r.Token, "", nil); got.Get("ETag") != header.Get("ETag") || got.Get("ETag") == tag {
		t.Errorf("ETag of PUT %s, of GET %s", header.Get("ETag"), got.Get("ETag"))
	}
	if status, again, text := sendRequest(t, r, "PUT", path, r.Token, edited, map[string]string{"If-Match": header.Get("ETag")}); status != 200 || again.Get("ETag") != header.Get("ETag") {
		t.Errorf("PUT after PUT of the same: %d %v %s", status, again, text)
	}
	assertAnswer(t, r, 412, "", "PUT", "/api/v1/checks/default/other", r.Token, strings.Replace(edited, `"disk"`, `"other"`, 1), map[string]string{"If-Match": "*"})
	assertAnswer(t, r, 412, "", "DELETE", path, r.Token, "", map[string]string{"If-Match": tag})
	if status, _, text := sendRequest(t, r, "PUT", path, r.Token, edited, map[string]string{"If-Match": tag}); status != 412 || !strings.Contains(text, "has changed: its ETag is") || !strings.Contains(text, "/stale\"") {
		t.Errorf("stale PUT: %d %s", status, text)
	}
	assertAnswer(t, r, 412, "", "PUT", path, r.Token, edited, map[string]string{"If-None-Match": "*"})

	// The guard on affected nodes refuses with another hint: confirm with --yes, not with another ETag.
	louder := json.RawMessage(strings.Replace(string(check), "60s", "20s", 1))
	assertAnswer(t, r, 428, "/guarded\"", "PUT", path+"?maxAffected=1", r.Token, string(louder), nil)
	assertRefused(t, model.Guarded, "")(c.Resources.Put(ctx, k, "default", "disk", louder, "", v1.ChangeOptions{MaxAffected: 1}))
	assertRefused(t, model.Stale, "")(c.Resources.Put(ctx, k, "default", "disk", louder, tag, v1.ChangeOptions{Yes: true}))

	// Pages and selectors.
	for _, name := range []string{"a", "b", "c", "d"} {
		r.Apply(`{apiVersion: muster/v1, kind: Check, metadata: {name: ` + name + `}, spec: {interval: 60s, command: x, targets: {nodes: [web01]}}}`)
	}
	var names []string
	after := ""
	for {
		page, err := c.Resources.List(ctx, k, "default", v1.ResourceFilter{}, false, 2, after)
		testenv.NoError(t, err)
		for _, item := range page.Items {
			o, err := kind.All().DecodeResource(item)
			testenv.NoError(t, err)
			names = append(names, o.Metadata.Name)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "a b c d disk" {
		t.Errorf("pages: %s", got)
	}
	if page, err := c.Resources.List(ctx, k, "", v1.ResourceFilter{Selector: "team=a"}, false, 10, ""); err != nil || len(page.Items) != 1 {
		t.Errorf("selector: %d items, %v", len(page.Items), err)
	}

	for expr, want := range map[string]int{
		`spec.interval == "1m" && metadata.name < "c"`: 2, `duration(spec.interval) > duration("1m")`: 0, `has(spec.ttl)`: 0,
		`!has(metadata.labels) && "web01" in spec.targets.nodes`: 4, `spec.nothing == 1`: 0,
	} {
		page, err := c.Resources.List(ctx, k, "default", v1.ResourceFilter{Where: expr}, false, 100, "")
		if err != nil || len(page.Items) != want {
			t.Errorf("where %s: %d items, want %d, %v", expr, len(page.Items), want, err)
		}
	}
	page, err := c.Resources.List(ctx, k, "default", v1.ResourceFilter{Selector: "team=a", Where: `metadata.labels.team == "a"`}, false, 1, "")
	if err != nil || len(page.Items) != 1 {
		t.Errorf("labels and where: %d items, %v", len(page.Items), err)
	}
	for expr, want := range map[string]string{`node.name == "x"`: "a condition reads metadata and spec", `spec.a =`: "column ", `spec.a`: "true or false"} {
		if _, err := c.Resources.List(ctx, k, "", v1.ResourceFilter{Where: expr}, false, 1, ""); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("where %s: %v", expr, err)
		}
	}
	nodes := kind.Node().KindInfo
	for expr, want := range map[string]int{`node.name == "web01"`: 1, `node.labels.nothing == "x"`: 0} {
		page, err := c.Resources.List(ctx, nodes, "default", v1.ResourceFilter{Where: expr}, false, 100, "")
		states, err2 := c.Nodes.States(ctx, v1.NodeFilter{Namespace: "default", Where: expr, Limit: 10})
		if err != nil || err2 != nil || len(page.Items) != want || states.Total != want {
			t.Errorf("nodes where %s: %d and %d, want %d, %v %v", expr, len(page.Items), states.Total, want, err, err2)
		}
	}

	// An unknown field is refused, and the hint has the right name.
	wrong := json.RawMessage(`{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"x"},"spec":{"intervall":"60s","command":"x"}}`)
	_, err = c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{wrong}})
	if model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), "interval") {
		t.Errorf("unknown field: %v", err)
	}

	// Resources are deleted, and the audit has a record of each change.
	if _, err := c.Resources.Delete(ctx, k, "default", "disk", "", v1.ChangeOptions{Message: "not needed"}); err != nil {
		t.Fatal(err)
	}
	changes, err := c.Resources.Changes(ctx, "Check", "default", "disk", 10, "")
	if err != nil || len(changes.Items) != 3 {
		t.Fatalf("changes: %+v %v", changes, err)
	}
	if first := changes.Items[0]; first.Op != "delete" || first.Message != "not needed" || first.User != "admin" || first.Address != "127.0.0.1" {
		t.Errorf("newest change: %+v", first)
	}
	if second := changes.Items[1]; second.Op != "update" || !strings.Contains(second.Diff, "+    interval: 30s") && !strings.Contains(second.Diff, "interval: 30s") {
		t.Errorf("second change: %+v", second)
	}
	paged, err := c.Resources.Changes(ctx, "Check", "default", "disk", 1, "")
	if err != nil || len(paged.Items) != 1 || paged.Next == "" {
		t.Fatalf("first page of changes: %+v %v", paged, err)
	}
	if rest, err := c.Resources.Changes(ctx, "Check", "default", "disk", 10, paged.Next); err != nil || len(rest.Items) != 2 {
		t.Errorf("second page of changes: %+v %v", rest, err)
	}
}

// TestApplyUsesTheRequestedNamespace applies a resource without a namespace, and expects the namespace of the request.
func TestApplyUsesTheRequestedNamespace(t *testing.T) {
	r := apitest.NewServer(t)
	r.Apply(`{apiVersion: muster/v1, kind: Namespace, metadata: {name: team}}`)
	c := newTestClient(t, r, r.Token)
	check := json.RawMessage(`{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"disk"},"spec":{"interval":"60s","command":"x","targets":{"groups":["all"]}}}`)
	done, err := c.Resources.Apply(context.Background(), v1.ApplyRequest{Resources: []json.RawMessage{check}, Namespace: "team"})
	if err != nil || done.Outcomes[0].Namespace != "team" {
		t.Fatalf("%+v %v", done, err)
	}
}

// TestEventsAreSelectedByFilters lists events by status, node, check, label and condition, and expects only
// matching events.
func TestEventsAreSelectedByFilters(t *testing.T) {
	r := apitest.NewServer(t)
	ctx := context.Background()
	r.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	r.DeclareNodes("default", map[string]string{"env": "test"}, "db01")
	r.Apply(fleetYAML)
	r.RecordResult("default", "web01", "disk", model.OK, "DISK OK")
	r.RecordResult("default", "web02", "disk", model.Critical, "DISK CRITICAL: / is full")
	r.RecordResult("default", "web02", "disk", model.Critical, "DISK CRITICAL: / is full")
	r.RecordResult("default", "db01", "disk", model.Warning, "DISK WARNING")
	r.RecordResult("default", "web01", "load", model.Unknown, "no such plug-in")
	r.Apply("kind: Group\nmetadata: {name: one}\nspec: {nodes: [web01]}\n")
	c := newTestClient(t, r, r.Token)

	for _, test := range []struct {
		name   string
		filter v1.EventFilter
		want   string
	}{
		{"all, worst first", v1.EventFilter{}, "web02/disk web01/load db01/disk web01/disk"},
		{"node", v1.EventFilter{Namespace: "default", Node: "web01"}, "web01/load web01/disk"},
		{"node in any namespace", v1.EventFilter{Node: "db01"}, "db01/disk"},
		{"check", v1.EventFilter{Check: "disk"}, "web02/disk db01/disk web01/disk"},
		{"status", v1.EventFilter{Status: "critical,1"}, "web02/disk db01/disk"},
		{"selector", v1.EventFilter{Selector: "env=prod"}, "web02/disk web01/load web01/disk"},
		{"selector that matches nobody", v1.EventFilter{Selector: "env=moon"}, ""},
		{"selector and node", v1.EventFilter{Selector: "env=prod", Node: "db01"}, ""},
		{"problem", v1.EventFilter{Problem: true}, "web02/disk web01/load"},
		{"group", v1.EventFilter{Namespace: "default", Group: "one", Problem: true}, "web01/load"},
		{"group and node", v1.EventFilter{Namespace: "default", Group: "one", Node: "web02"}, ""},
		{"where", v1.EventFilter{Where: `event.status >= CRITICAL && node.labels.env == "prod"`}, "web02/disk web01/load"},
		{"where of output", v1.EventFilter{Where: `event.output.contains("full") || event.check == "load"`}, "web02/disk web01/load"},
		{"where of a time", v1.EventFilter{Where: `now - event.received > duration("1h")`}, ""},
		{"where of a missing label", v1.EventFilter{Where: `node.labels.tier != "db" && event.status == WARNING`}, "db01/disk"},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := c.Events.List(ctx, test.filter)
			testenv.NoError(t, err)
			if got := eventNames(list.Items); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for _, test := range []struct {
		filter v1.EventFilter
		class  model.Class
		says   string
	}{
		{v1.EventFilter{Where: "event.status == "}, model.Invalid, "column"},
		{v1.EventFilter{Where: "event.sttus == 1"}, model.Invalid, "undeclared"},
		{v1.EventFilter{Where: "event.status"}, model.Invalid, "expected true or false"},
		{v1.EventFilter{Status: "bad"}, model.Invalid, "bad"},
		{v1.EventFilter{Node: "web99"}, model.NotFound, "web99"},
		{v1.EventFilter{Namespace: "nowhere"}, model.NotFound, "nowhere"},
		{v1.EventFilter{After: "!"}, model.Invalid, ""},
		{v1.EventFilter{Limit: 100000}, model.Invalid, "limit"},
	} {
		_, err := c.Events.List(ctx, test.filter)
		if model.ClassOf(err) != test.class || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.filter, err)
		}
	}

	var paged []v1.Event
	filter := v1.EventFilter{Limit: 1}
	for {
		page, err := c.Events.List(ctx, filter)
		testenv.NoError(t, err)
		if page.Total != 4 || page.Wrong != 3 {
			t.Errorf("total %d, wrong %d", page.Total, page.Wrong)
		}
		paged = append(paged, page.Items...)
		if filter.After = page.Next; filter.After == "" {
			break
		}
	}
	if got := eventNames(paged); got != "web02/disk web01/load db01/disk web01/disk" {
		t.Errorf("pages of one: %q", got)
	}

	e, err := c.Events.Get(ctx, "default", "web02", "disk")
	if err != nil || e.Occurrences != 2 || e.Problem == nil || len(e.History) != 2 || e.Results != 2 {
		t.Errorf("event: %+v %v", e, err)
	}
	assertRefused(t, model.NotFound, "has no result yet")(c.Events.Get(ctx, "default", "web02", "load"))
	testenv.NoError(t, c.Events.Resolve(ctx, "default", "web02", "disk", "cleaned up"))
	if e, err := c.Events.Get(ctx, "default", "web02", "disk"); err != nil || e.Status != model.OK || e.Problem != nil {
		t.Errorf("after resolve: %+v %v", e, err)
	}
	testenv.NoError(t, c.Events.Delete(ctx, "default", "db01", "disk", ""))
	assertRefused(t, model.NotFound, "")(c.Events.Get(ctx, "default", "db01", "disk"))
	if status, err := c.Status(ctx, ""); err != nil || status.Events != 3 || status.Nodes != 3 || len(status.Wrong) != 1 || status.Wrong[0].Source.Kind != "check" || status.Wrong[0].Source.Name != "load" || len(status.LastChange) == 0 {
		t.Errorf("status: %+v %v", status, err)
	}
}

// eventNames joins the names of events as NODE/CHECK.
func eventNames(events []v1.Event) string {
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = e.Node + "/" + e.Check
	}
	return strings.Join(list, " ")
}

// TestWatchStreamsMatchingEvents watches events with a filter and expects only matching changes in the stream.
func TestWatchStreamsMatchingEvents(t *testing.T) {
	r := apitest.NewServer(t)
	r.DeclareNodes("default", nil, "web01", "web02")
	r.Apply(`{apiVersion: muster/v1, kind: Check, metadata: {name: disk}, spec: {targets: {groups: [all]}, interval: 60s, command: x}}`)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := newTestClient(t, r, r.Token)
	enough := errors.New("enough")
	got := make(chan v1.Event, 100)
	ended := make(chan error, 1)
	go func() {
		defer close(got)
		ended <- c.Events.Watch(ctx, v1.EventFilter{Node: "web01", Where: "event.status != OK"}, func() error { return nil }, func(e v1.Event) error {
			got <- e
			return enough
		})
	}()
	// The watch may begin after the first results, so results are recorded until the watch shows one.
	for status := model.Warning; ; status ^= model.Warning ^ model.Critical {
		r.RecordResult("default", "web02", "disk", status, "another node")
		r.RecordResult("default", "web01", "disk", model.OK, "fine")
		r.RecordResult("default", "web01", "disk", status, "bad")
		select {
		case e, ok := <-got:
			if !ok {
				t.Fatal(<-ended)
			}
			if e.Node != "web01" || e.Status == model.OK || e.Output != "bad" {
				t.Errorf("event: %+v", e)
			}
			if err := <-ended; !errors.Is(err, enough) {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// TestJoinTokensAreListedAndDeleted creates, lists and deletes a join token, and expects no secret in the list.
func TestJoinTokensAreListedAndDeleted(t *testing.T) {
	r := apitest.NewServer(t)
	ctx := context.Background()
	c := newTestClient(t, r, r.Token)
	made, err := c.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{Groups: []string{"web"}, ExpiresIn: 60, MaxUses: 1})
	if err != nil || made.Token == "" || made.Namespace != "default" {
		t.Fatalf("%+v %v", made, err)
	}
	list, err := c.Enrolment.Tokens(ctx)
	if err != nil || len(list.Items) != 1 || list.Items[0].Token != "" {
		t.Fatalf("%+v %v", list, err)
	}
	if _, err := c.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{Namespace: "nowhere"}); model.ClassOf(err) != model.NotFound {
		t.Error(err)
	}
	testenv.NoError(t, c.Enrolment.DeleteToken(ctx, made.ID))
}

// TestErrorsAreProblemJSON sends wrong requests and expects JSON errors by RFC 9457, with the right status
func TestErrorsAreProblemJSON(t *testing.T) {
	r := apitest.NewServer(t)
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/api/v1/nothing", "", 404},
		{"PATCH", "/api/v1/checks/default/disk", "", 405},
		{"GET", "/api/v1/checks/default/none", "", 404},
		{"GET", "/api/v1/events?limit=x", "", 422},
		{"GET", "/api/v1/events?unknown=1", "", 422},
		{"POST", "/api/v1/apply", "{", 400},
		{"POST", "/api/v1/apply", `{"resources":[]}`, 422},
		{"POST", "/api/v1/apply", `{"resources":[{}],"what":1}`, 422},
		{"POST", "/api/v1/apply", `{"resources":[{"kind":"Chek"}]}`, 422},
		{"POST", "/api/v1/tokens", `{"note":"` + strings.Repeat("x", 2<<20) + `"}`, 413},
		{"DELETE", "/api/v1/namespaces/default", "", 422},
		{"DELETE", "/api/v1/namespaces/default?message=x", "", 422},
	} {
		status, header, body := sendRequest(t, r, test.method, test.path, r.Token, test.body, nil)
		var said v1.Error
		err := json.Unmarshal([]byte(body), &said)
		if status != test.status || header.Get("Content-Type") != "application/problem+json" || err != nil ||
			said.Status != status || said.Title == "" || !strings.HasPrefix(said.Type, v1.ErrorType) {
			t.Errorf("%s %s: %d %s %s", test.method, test.path, status, header.Get("Content-Type"), body)
		}
	}
}

// TestWrongMethodListsAllowedOnes sends a request with a wrong method, and expects status 405 with the accepted
// methods.
func TestWrongMethodListsAllowedOnes(t *testing.T) {
	r := apitest.NewServer(t)
	for _, c := range []struct{ method, path, allow string }{
		{"POST", "/api/v1/events", "GET, HEAD"}, {"PUT", "/api/v1/apply", "POST"}, {"OPTIONS", "/api/v1/tokens", "GET, HEAD, POST"},
		{"PATCH", "/api/v1/nodes/default/web01", "GET, HEAD, PUT, DELETE"}, {"POST", "/livez", "GET, HEAD"}, {"BREW", "/api/v1/openapi.json", "GET, HEAD"},
	} {
		status, header, body := sendRequest(t, r, c.method, c.path, r.Token, "", nil)
		if status != 405 || header.Get("Allow") != c.allow || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, c.allow) {
			t.Errorf("%s %s: %d Allow: %s %s", c.method, c.path, status, header.Get("Allow"), body)
		}
	}
	if status, header, _ := sendRequest(t, r, "DELETE", "/api/v1/nothing", r.Token, "", nil); status != 404 || header.Get("Allow") != "" {
		t.Errorf("unknown path: got %d %v", status, header)
	}
}

// documentedStatuses returns a function that looks up a request's error statuses in the OpenAPI document. For a path
// that the document lacks, the function returns nil.
func documentedStatuses(t testing.TB, r *apitest.Server) func(*http.Request) []string {
	t.Helper()
	request := httptest.NewRequest("GET", "/api/v1/openapi.json", nil)
	request.Header.Set("Authorization", "Bearer "+r.Token)
	answer := httptest.NewRecorder()
	r.Handler.ServeHTTP(answer, request)
	var page struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	testenv.NoError(t, json.Unmarshal(answer.Body.Bytes(), &page))
	mux, lists := http.NewServeMux(), map[string][]string{}
	for path, methods := range page.Paths {
		for method, op := range methods {
			pattern := strings.ToUpper(method) + " " + path
			mux.Handle(pattern, http.NotFoundHandler())
			lists[pattern] = slices.Sorted(maps.Keys(op.Responses))
		}
	}
	return func(q *http.Request) []string {
		_, pattern := mux.Handler(q)
		return lists[pattern]
	}
}

// TestOpenAPIListsErrorStatuses compares the error statuses of several operations in the OpenAPI document with the
// expected statuses.
func TestOpenAPIListsErrorStatuses(t *testing.T) {
	list := documentedStatuses(t, apitest.NewServer(t))
	for request, want := range map[string]string{
		"GET /api/v1/checks":                "200 401 409 422 500 503 default",
		"GET /api/v1/checks/default/disk":   "200 304 401 404 422 500 503 default",
		"PUT /api/v1/checks/default/disk":   "200 401 403 404 409 412 413 422 428 429 500 503 default",
		"DELETE /api/v1/nodes/default/db01": "200 401 403 404 409 412 422 428 429 500 503 default",
		"POST /api/v1/apply":                "200 401 403 409 413 422 428 429 500 503 default",
		"POST /api/v1/delete":               "200 401 403 404 409 413 422 428 429 500 503 default",
		"POST /api/v1/login":                "200 401 413 422 429 500 503 default",
		"POST /api/v1/logout":               "204 401 422 500 503 default",
		"GET /api/v1/events/watch":          "200 401 404 422 429 500 503 default",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := strings.Join(list(httptest.NewRequest(method, path, nil)), " "); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// TestResourceStatesShowNodesAndEvents requests the state of resources, and expects their nodes with statuses. A group
// must show its members; a check its nodes, worst status first.
func TestResourceStatesShowNodesAndEvents(t *testing.T) {
	r := apitest.NewServer(t)
	c := newTestClient(t, r, r.Token)
	ctx := t.Context()
	r.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	r.DeclareNodes("default", map[string]string{"env": "test"}, "db01")
	r.Apply(fleetYAML + "---\nkind: Group\nmetadata: {name: web}\nspec: {nodes: [web01, web02]}\n---\n" +
		"kind: Property\nmetadata: {name: unread}\nspec: {value: 1}\n---\nkind: Handler\nmetadata: {name: pager}\nspec: {command: \"true\"}\n")
	r.RecordResult("default", "web02", "disk", model.Critical, "full")
	r.RecordResult("default", "db01", "disk", model.Warning, "nearly full")
	r.RecordResult("default", "web01", "disk", model.OK, "fine")
	r.RecordResult("default", "web01", "load", model.OK, "fine")

	list, err := c.Nodes.States(ctx, v1.NodeFilter{Namespace: "default", Limit: 2})
	if err != nil || list.Total != 3 || list.Wrong != 2 || len(list.Items) != 2 || list.Items[0].Name != "web02" || list.Items[1].Name != "db01" {
		t.Fatalf("worst first: %+v %v", list, err)
	}
	if n := list.Items[0]; n.Events != (v1.ByStatus{Critical: 1}) || n.Severity != model.High || n.Labels["env"] != "prod" || !slices.Contains(n.Groups, "web") || !slices.Contains(n.Groups, "all") {
		t.Errorf("%+v", n)
	}
	for _, f := range []struct {
		filter v1.NodeFilter
		names  string
	}{
		{v1.NodeFilter{Group: "web"}, "web02 web01"}, {v1.NodeFilter{Selector: "env=test"}, "db01"},
		{v1.NodeFilter{Group: "shared/all", Selector: "env=prod"}, "web02 web01"}, {v1.NodeFilter{Name: "web01"}, "web01"},
	} {
		f.filter.Limit = 10
		list, err := c.Nodes.States(ctx, f.filter)
		var names []string
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != f.names {
			t.Errorf("%+v: %q %v", f.filter, got, err)
		}
	}
	if list, err = c.Nodes.States(ctx, v1.NodeFilter{Name: "web01", Limit: 1}); err != nil || !slices.Equal(list.Items[0].Checks, []string{"disk", "load"}) {
		t.Errorf("%+v %v", list, err)
	}
	for _, want := range []struct {
		kind, name    string
		nodes, checks int
		note          string
	}{
		{"check", "disk", 3, 1, "runs on 3 nodes"}, {"check", "load", 2, 1, "runs on 2 nodes"}, {"group", "web", 2, 0, "has 2 nodes"},
		{"group", "all", 3, 1, "has 3 nodes"}, {"property", "unread", 0, 0, "read by no check yet"}, {"handler", "pager", 0, 0, "used by nothing yet"},
		{"node", "web01", 1, 2, ""},
	} {
		found, _ := kind.All().Lookup(want.kind)
		k := found.KindInfo
		s, err := c.Resources.State(ctx, k, "default", want.name)
		if err != nil || s.Nodes != want.nodes || s.Checks != want.checks || s.Note != want.note {
			t.Errorf("%s %s: %+v %v", want.kind, want.name, s, err)
		}
		page, err := c.Resources.List(ctx, k, "default", v1.ResourceFilter{}, true, 100, "")
		if err != nil || len(page.States) != len(page.Items) {
			t.Errorf("%s: %d states of %d, %v", want.kind, len(page.States), len(page.Items), err)
		}
	}
	k := kind.Check().KindInfo
	if s, err := c.Resources.State(ctx, k, "default", "disk"); err != nil || s.Events == nil || *s.Events != (v1.ByStatus{OK: 1, Warning: 1, Critical: 1}) {
		t.Errorf("%+v %v", s, err)
	}
	assertRefused(t, model.NotFound, "did you mean disk?")(c.Resources.State(ctx, k, "default", "dsik"))
}

// TestEventListCountsMatches expects a page of events to contain the total number of matching events. The number is
// left out where the server would have to read all events for it.
func TestEventListCountsMatches(t *testing.T) {
	r := apitest.NewServer(t)
	c := newTestClient(t, r, r.Token)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("web%02d", i))
	}
	r.DeclareNodes("default", nil, names...)
	r.Apply(fleetYAML)
	for i, name := range names {
		r.RecordResult("default", name, "disk", model.Status(i%4), "x")
	}
	for _, f := range []struct {
		filter v1.EventFilter
		want   uint64
	}{
		{v1.EventFilter{Limit: 3}, 30}, {v1.EventFilter{Limit: 3, Status: "critical,warning,critical"}, 15}, {v1.EventFilter{Limit: 3, Check: "disk"}, 0},
		{v1.EventFilter{Limit: 100, Check: "disk"}, 30}, {v1.EventFilter{Limit: 3, Problem: true}, 0},
	} {
		list, err := c.Events.List(t.Context(), f.filter)
		if err != nil || list.Match != f.want {
			t.Errorf("%+v: %d %v", f.filter, list.Match, err)
		}
	}
}

// TestProblemWithoutCheckShowsItsSource stores a problem that no check has opened, and expects the API to name
// its source. The field check must show the source, too.
func TestProblemWithoutCheckShowsItsSource(t *testing.T) {
	r := apitest.NewServer(t)
	r.DeclareNodes("default", nil, "web01")
	node, _ := r.Directory.NodeByName("default", "web01")
	source := model.Source{Kind: 200, ID: 7, Instance: "/var"}
	problem := func(id string, of model.Source, name string) history.Problem {
		return history.Problem{Namespace: "default", Node: "web01", SourceName: name, Problem: model.Problem{
			ID: id, NodeID: node, Source: of, Status: model.Critical, Severity: model.High, Opened: r.Now().Add(-time.Hour), Output: "full"}}
	}
	testenv.NoError(t, r.History.Record(t.Context(), history.Batch{Opened: []history.Problem{problem("one", source, "rule7"), problem("two", model.CheckSource(2000), "disk")}}))
	c := newTestClient(t, r, r.Token)
	list, err := c.Problems.List(t.Context(), "default", "", "", false, 10, "", v1.RowFilter{Where: `row.source.kind != "check"`})
	testenv.NoError(t, err)
	want := v1.Source{Kind: "source-200", Name: "rule7", ID: 7, Instance: "/var"}
	if len(list.Items) != 1 || list.Items[0].ID != "one" || list.Items[0].Source != want || list.Items[0].Check != "rule7:/var" {
		t.Errorf("listed %+v", list.Items)
	}
	two, err := c.Problems.Get(t.Context(), "two")
	if err != nil || two.Check != "disk" || two.Source != (v1.Source{Kind: "check", Name: "disk", ID: 2000}) {
		t.Errorf("got %+v, %v", two, err)
	}
}

// TestViewerChangesOnlyItsOwnPassword expects that a viewer can neither see other users nor change their passwords.
// When the user is deleted, its sessions and watches end at once.
func TestViewerChangesOnlyItsOwnPassword(t *testing.T) {
	r := apitest.NewServer(t)
	ctx := t.Context()
	admin, ada := newTestClient(t, r, r.Token), newTestClient(t, r, "")
	made, err := admin.Access.CreateUser(ctx, v1.UserRequest{Name: "ada"})
	if err != nil || made.Role != access.Viewer || len(made.Password) < 16 {
		t.Fatal(made, err)
	}
	if other, err := admin.Access.CreateUser(ctx, v1.UserRequest{Name: "bob", UserGrants: v1.UserGrants{Role: access.Admin}, Password: "battery staple"}); err != nil || other.Password != "" {
		t.Fatal(other, err)
	}
	if _, err := ada.Access.Login(ctx, "ada", made.Password); err != nil {
		t.Fatal(err)
	}
	assertRefused(t, model.Forbidden, "")(ada.Access.CreateUser(ctx, v1.UserRequest{Name: "eve", UserGrants: v1.UserGrants{Role: access.Admin}}))
	assertRefused(t, model.Forbidden, "")(ada.Access.DeleteUser(ctx, "bob", false))
	if list, err := ada.Access.Users(ctx); err != nil || len(list.Items) != 1 || list.Items[0].Name != "ada" {
		t.Errorf("the users that a viewer sees: %v %v", list, err)
	}
	if list, err := admin.Access.Users(ctx); err != nil || len(list.Items) != 3 {
		t.Errorf("the users that an administrator sees: %v %v", list, err)
	}
	assertRefused(t, model.Forbidden, "")(nil, ada.Access.ChangePassword(ctx, v1.PasswordChange{Old: "wrong horse", New: "my own password"}))
	testenv.NoError(t, ada.Access.ChangePassword(ctx, v1.PasswordChange{Old: made.Password, New: "my own password"}))
	if _, err := ada.Access.Login(ctx, "ada", "my own password"); err != nil {
		t.Fatal(err)
	}
	r.Apply(fleetYAML)
	r.DeclareNodes("default", nil, "web01")
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- ada.Events.Watch(ctx, v1.EventFilter{}, func() error { close(began); return nil }, func(e v1.Event) error {
			t.Errorf("the watch of a deleted user shows %s on %s", e.Check, e.Node)
			return nil
		})
	}()
	<-began
	if u, err := admin.Access.DeleteUser(ctx, "ada", false); err != nil || u.Sessions != 2 {
		t.Fatal(u, err)
	}
	r.RecordResult("default", "web01", "disk", model.Critical, "full")
	<-ended
	assertRefused(t, model.Unauthenticated, "")(ada.Access.WhoAmI(ctx))
	list, err := admin.Resources.Changes(ctx, "", "", "", 20, "")
	testenv.NoError(t, err)
	seen := map[string]bool{}
	for _, c := range list.Items {
		if c.Kind == "user" {
			seen[c.User+" "+c.Op+" "+c.Name] = true
		}
	}
	for _, want := range []string{"admin create ada", "admin create bob", "ada update ada", "admin delete ada"} {
		if !seen[want] {
			t.Errorf("the audit has no record of %q: %v", want, seen)
		}
	}
}
