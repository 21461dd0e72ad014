package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/promapi"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// The tested subject has a role in namespace alpha and none in namespace quiet. Names in quiet begin with hush,
// and all other texts in quiet hold the marker, which no request contains.
const (
	marker = "zzmarkerzz"

	alpha = `
kind: Namespace
metadata: {name: alpha}
---
kind: Check
metadata: {name: disk, namespace: alpha}
spec: {targets: {groups: [all]}, interval: 60s, command: check_disk}
---
kind: Check
metadata: {name: ping, namespace: shared}
spec: {targets: {where: 'true'}, interval: 60s, command: check_ping}
---
kind: Handler
metadata: {name: pager, namespace: alpha}
spec: {command: 'true'}
---
kind: Silence
metadata: {name: calm, namespace: alpha}
spec: {targets: {nodes: [a1]}, reason: repair, until: 2026-12-01T00:00:00Z}
`
	quiet = `
kind: Namespace
metadata: {name: quiet, displayName: zzmarkerzz}
---
kind: Check
metadata: {name: hush-disk, namespace: quiet, labels: {team: zzmarkerzz}}
spec: {targets: {groups: [all]}, interval: 60s, command: check zzmarkerzz, alert: {handlers: [hush-pager]}}
---
kind: Handler
metadata: {name: hush-pager, namespace: quiet}
spec: {command: zzmarkerzz}
---
kind: Handler
metadata: {name: hush-stream, namespace: quiet}
spec: {stream: {address: 'zzmarkerzz.example:99', results: all}}
---
kind: Group
metadata: {name: hush-group, namespace: quiet}
spec: {where: 'node.labels.owner == "zzmarkerzz"'}
---
kind: Property
metadata: {name: hush-prop, namespace: quiet, owner: hushers}
spec: {value: zzmarkerzz}
---
kind: Secret
metadata: {name: hush-secret, namespace: quiet}
spec: {env: ZZMARKERZZ}
---
kind: Window
metadata: {name: hush-window, namespace: quiet, displayName: zzmarkerzz}
spec: {spans: [{during: '00:00-23:59'}], maintenance: {targets: {groups: [all]}}}
---
kind: Route
metadata: {name: hush-route, namespace: quiet, displayName: zzmarkerzz}
spec: {steps: [{to: [hush-pager]}]}
---
kind: Silence
metadata: {name: hush-silence, namespace: quiet}
spec: {targets: {nodes: [hush1]}, reason: zzmarkerzz, until: 2026-12-01T00:00:00Z}
---
kind: Filter
metadata: {name: hush-filter, namespace: quiet}
spec: {action: allow, expressions: ['"zzmarkerzz" == ""']}
---
kind: Mutator
metadata: {name: hush-mutator, namespace: quiet}
spec: {command: zzmarkerzz}
---
kind: Hook
metadata: {name: hush-hook, namespace: quiet}
spec: {command: zzmarkerzz, timeout: 10s}
---
kind: Pipeline
metadata: {name: hush-pipeline, namespace: quiet}
spec: {workflows: [{name: zzmarkerzz, handler: hush-pager}]}
`
)

// fillHiddenNamespace stores data of every kind in a namespace that the tested caller may not see.
func fillHiddenNamespace(t *testing.T, r *apitest.Server) {
	t.Helper()
	ctx, by := t.Context(), intent.Actor{User: "ada", Address: "10.9.9.9", Message: marker}
	r.Apply(quiet)
	r.DeclareNodes("quiet", map[string]string{"owner": marker}, "hush1", "hush2", "hush3", "hush-gone")
	r.ConnectNodes("quiet", "hush1", "hush2")
	for _, check := range []string{"hush-disk", "ping"} {
		r.RecordResult("quiet", "hush1", check, model.Critical, "full "+marker)
		r.RecordResult("quiet", "hush2", check, model.OK, "fine "+marker)
	}
	r.RecordValue("quiet", "hush1", marker, 1)
	r.RecordText("quiet", "hush1", marker, marker)
	id, _ := r.Directory.NodeByName("quiet", "hush1")
	check, _ := r.Directory.CheckByName("quiet", "hush-disk")
	p := history.Problem{Namespace: "quiet", Node: "hush1", SourceName: "hush-disk", Problem: model.Problem{
		ID: "Phush", NodeID: id, Source: model.CheckSource(check), Status: model.Critical, Severity: model.High, Opened: r.Now().Add(-time.Minute), Output: marker}}
	ref := history.HandlerRef{Namespace: "quiet", Name: "hush-pager"}
	var b history.Batch
	b.Opened = append(b.Opened, p)
	b.Entries = append(b.Entries, history.Entry{At: p.Opened, Kind: history.StatusChanged, Namespace: "quiet", Node: "hush1", NodeID: id, SourceName: "hush-disk", Source: model.CheckSource(check), Status: model.Critical, Output: marker})
	b.Deliveries = append(b.Deliveries, history.Delivery{Key: "hush", Problem: p.ID, Handler: ref, Kind: "opened", Payload: []byte(`{"summary":"` + marker + `"}`), Created: p.Opened})
	testenv.NoError(t, r.History.Record(ctx, b))
	list, err := r.History.Deliveries(ctx, p.ID)
	testenv.NoError(t, err)
	testenv.NoError(t, r.History.RecordAttempts(ctx, history.DeliveryAttempt{ID: list[0].ID, Attempt: history.Attempt{At: r.Now(), State: history.Dead, Error: marker}}))
	testenv.NoError(t, intent.JoinTokens{Store: r.Intent.Store()}.Create(ctx, by, pki.JoinToken{ID: "hushtoken", Namespace: "quiet", Hash: []byte("x"), Note: marker}))
	_, err = r.Intent.Retire(ctx, by, []intent.Key{{Kind: "Node", Namespace: "quiet", Name: "hush-gone"}}, intent.ApplyOptions{Yes: true})
	testenv.NoError(t, err)
	testenv.NoError(t, r.Planner.CatchUp(ctx))
	_, err = r.Access.CreateUser(ctx, by, access.User{Name: "hush-user", Grants: access.Grants{Bindings: map[string]string{"quiet": access.Admin}}}, "four plain test words")
	testenv.NoError(t, err)
	_, _, err = r.Access.CreateToken(ctx, by, access.AccessToken{User: "hush-user", Note: marker, Grants: access.Grants{Bindings: map[string]string{"quiet": access.Viewer}}})
	testenv.NoError(t, err)
	testenv.NoError(t, r.Intent.RecordRun(ctx, by))
}

// foreignRequestBodies lists, by operation, request bodies that address another namespace. NS is replaced by its
// name. An operation with a body that is not listed fails the test.
var foreignRequestBodies = map[string][]string{
	"login": {`{"user":"hush-user","password":"guess guess"}`}, "changePassword": {`{"old":"guess guess","new":"guess guess2"}`},
	"createToken": {`{"bindings":{"NS":"viewer"}}`, `{"role":"viewer"}`, `{"role":"admin"}`, `{"user":"hush-user","bindings":{"alpha":"viewer"}}`, `{"role":"alerts"}`, `{"role":"alerts","namespaces":["NS"]}`},
	"createUser":  {`{"name":"eve","bindings":{"NS":"viewer"}}`, `{"name":"eve"}`}, "grantUser": {`{"role":"admin"}`, `{"bindings":{"NS":"admin"}}`},
	"notifyEvent": {`{}`}, "approveRollout": {`{}`}, "startRollout": {`{}`}, "pauseRollout": {`{}`}, "stopRollout": {`{}`}, "undoRollout": {`{}`, `{"to":1}`},
	"apply": {
		`{"resources":[{"kind":"Check","metadata":{"name":"hush-disk","namespace":"NS"},"spec":{"targets":{"groups":["all"]},"interval":"60s","command":"id"}}]}`,
		`{"dryRun":true,"resources":[{"kind":"Check","metadata":{"name":"hush-disk","namespace":"NS"},"spec":{"targets":{"groups":["all"]},"interval":"60s","command":"id"}}]}`,
		`{"resources":[{"kind":"Namespace","metadata":{"name":"NS"},"spec":{}}]}`, `{"resources":[{"kind":"Namespace","metadata":{"name":"alpha"},"spec":{}}]}`,
		`{"resources":[{"kind":"Check","metadata":{"name":"x","namespace":"alpha"},"spec":{"targets":{"groups":["NS/hush-group"]},"interval":"60s","command":"id"}}]}`,
		`{"resources":[{"kind":"Check","metadata":{"name":"x","namespace":"alpha"},"spec":{"targets":{"nodes":["NS/hush1"]},"interval":"60s","command":"id"}}]}`,
		`{"resources":[{"kind":"Check","metadata":{"name":"x","namespace":"alpha"},"spec":{"targets":{"groups":["all"]},"interval":"60s","command":"id","secrets":[{"env":"X","secret":"NS/hush-secret"}]}}]}`,
		`{"resources":[{"kind":"Check","metadata":{"name":"x","namespace":"alpha"},"spec":{"targets":{"groups":["all"]},"interval":"60s","command":"id","alert":{"handlers":["NS/hush-pager"]}}}]}`,
		`{"resources":[{"kind":"Route","metadata":{"name":"x","namespace":"alpha"},"spec":{"steps":[{"to":["NS/hush-pager"]}]}}]}`,
		`{"resources":[{"kind":"Node","metadata":{"name":"x","namespace":"alpha"},"spec":{"dependsOn":{"node":"NS/hush1"}}}]}`,
		`{"resources":[{"kind":"Handler","metadata":{"name":"x","namespace":"alpha"},"spec":{"command":"cat intent.db"}}]}`,
		`{"resources":[{"kind":"Handler","metadata":{"name":"x","namespace":"alpha"},"spec":{"slack":{"url":{"fromFile":"/etc/passwd"}}}}]}`,
		`{"resources":[{"kind":"Handler","metadata":{"name":"x","namespace":"alpha"},"spec":{"webhook":{"url":"http://x.example","token":{"fromEnv":"HOME"}}}}]}`,
		`{"resources":[{"kind":"Secret","metadata":{"name":"x","namespace":"alpha"},"spec":{"file":"/etc/passwd"}}]}`,
		`{"resources":[{"kind":"Mutator","metadata":{"name":"x","namespace":"alpha"},"spec":{"command":"id"}}]}`,
		`{"resources":[{"kind":"Property","metadata":{"name":"x","namespace":"alpha"},"spec":{"scope":"global","value":1}}]}`,
		`{"resources":[],"prune":true,"allowEmpty":true,"owner":"hushers"}`,
	},
	"delete":          {`{"resources":[{"kind":"Check","namespace":"NS","name":"hush-disk"}]}`, `{"resources":[{"kind":"Namespace","name":"NS"}]}`},
	"run":             {`{"namespace":"NS","check":"hush-disk"}`, `{"namespace":"NS","command":"id","targets":{"groups":["all"]}}`, `{"namespace":"alpha","command":"id","targets":{"nodes":["NS/hush1"]}}`, `{"namespace":"alpha","command":"id","targets":{"groups":["NS/hush-group"]}}`, `{"check":"ping"}`},
	"silence":         {`{"namespace":"NS","spec":{"targets":{"nodes":["hush1"]},"reason":"x","until":"2026-12-01T00:00:00Z"}}`, `{"namespace":"NS","dryRun":true,"spec":{"targets":{"where":"true"},"reason":"x","until":"2026-12-01T00:00:00Z"}}`},
	"endSilence":      {`{}`},
	"testHandler":     {`{}`, `{"node":"NS/hush1"}`},
	"replayHandler":   {`{}`},
	"createJoinToken": {`{"namespace":"NS"}`, `{"namespace":"alpha","groups":["NS/hush-group"]}`},
	"renameNode":      {`{"to":"x"}`}, "replaceNode": {`{}`}, "retireNodes": {`{"nodes":[{"namespace":"NS","name":"hush1"}]}`},
	"acceptPending": {`{"machine":"hush1","namespace":"NS"}`}, "acceptReturning": {`{}`}, "refusePending": {`{"machine":"hush1"}`},
	"resolveEvent": {`{}`}, "acknowledgeEvent": {`{}`}, "unacknowledgeEvent": {`{}`},
	"acknowledgeEvents": foreignBulkBodies, "unacknowledgeEvents": foreignBulkBodies, "resolveEvents": foreignBulkBodies, "deleteEvents": foreignBulkBodies,
}

var foreignBulkBodies = []string{`{"namespace":"NS","all":true,"yes":true}`, `{"node":"hush1","yes":true}`, `{"check":"hush-disk","yes":true}`, `{"group":"NS/hush-group","yes":true}`, `{"where":"node.namespace == \"NS\"","yes":true}`}

// operationRequest is one request to an API operation, sent with the token of the tested caller.
type operationRequest struct{ operation, method, path, body string }

// operationRequests returns requests for every operation of the OpenAPI document. Reads ask for all namespaces, and
// writes name resources of namespace ns.
func operationRequests(t *testing.T, r *apitest.Server, ns string) (out []operationRequest) {
	_, _, page := sendRequest(t, r, "GET", "/api/v1/openapi.json", r.Token, "", nil)
	var doc struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct{ Name, In string }
			Body       *struct{} `json:"requestBody"`
		}
	}
	testenv.NoError(t, json.Unmarshal([]byte(page), &doc))
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			if op.ID == "watchEvents" || op.ID == "putArchive" || op.ID == "logout" { // a stream (TestWatchOfABoundCallerShowsItsNamespace), raw bytes, the subject's own
				continue
			}
			method := strings.ToUpper(method)
			list, known := foreignRequestBodies[op.ID]
			if strings.HasPrefix(op.ID, "put") {
				kind := strings.TrimPrefix(op.ID, "put")
				list, known = []string{`{"kind":"` + kind + `","metadata":{"name":"hush-disk","namespace":"NS"},"spec":{}}`}, true
			}
			if op.Body != nil && !known {
				t.Errorf("operation %s takes a body: add requests of it to bodies", op.ID)
			}
			if list == nil {
				list = []string{""}
			}
			for _, path := range pathsWithParameters(path, method, ns) {
				queries := []string{""}
				if method == "GET" {
					for _, p := range op.Parameters {
						if p.In == "query" {
							queries = append(queries, hiddenNamespaceQueries(p.Name, ns)...)
						}
					}
				}
				for _, q := range queries {
					for _, body := range list {
						out = append(out, operationRequest{op.ID, method, path + q, strings.ReplaceAll(body, "NS", ns)})
					}
				}
			}
		}
	}
	return out
}

// pathsWithParameters replaces parameters such as {namespace} in an API path by names of test objects.
func pathsWithParameters(path, method, ns string) (out []string) {
	values := map[string][]string{
		"{namespace}": {ns}, "{node}": {"hush1"}, "{check}": {"hush-disk", "ping"}, "{id}": {"Phush", "hushtoken"}, "{sha512}": {strings.Repeat("ab", 64)},
		"{name}": {"hush-disk", "hush-pager", "hush-silence", "hush1", "hush-user", ns},
	}
	if method == "GET" {
		values["{namespace}"] = append(values["{namespace}"], "alpha", "shared")
		values["{node}"], values["{check}"] = append(values["{node}"], "a1"), append(values["{check}"], "disk")
		values["{name}"], values["{id}"] = append(values["{name}"], "alpha", "a1", "disk", "ping", "pager", "calm"), append(values["{id}"], "Palpha")
	}
	out = []string{path}
	for parameter, list := range values {
		var filled []string
		for _, one := range out {
			if !strings.Contains(one, parameter) {
				filled = append(filled, one)
				continue
			}
			for _, value := range list {
				filled = append(filled, strings.ReplaceAll(one, parameter, value))
			}
		}
		out = filled
	}
	slices.Sort(out)
	return out
}

// hiddenNamespaceQueries returns values for a query parameter that point to a namespace hidden from the caller.
func hiddenNamespaceQueries(name, ns string) []string {
	values := map[string][]string{
		"namespace": {ns, "alpha", "shared", "alpha&namespace=" + ns}, "node": {"hush1", "a1"}, "name": {"hush1", "a1"}, "check": {"hush-disk", "ping"}, "group": {ns + "/hush-group", "all", "shared/all"},
		"selector": {"owner", "!owner"}, "where": {"true", `node.namespace == "` + ns + `"`, `row.namespace == "` + ns + `"`, `metadata.namespace != "alpha"`, `node.labels.owner != ""`},
		"at": {"2026-11-20T11:59:50Z"}, "kind": {"Node", "user", "token"}, "state": {"true"}, "problem": {"true"}, "limit": {"1"}, "since": {"2026-11-19T11:00:00Z"}, "open": {"true"},
	}
	var out []string
	for _, value := range values[name] {
		value, more, _ := strings.Cut(value, "&")
		q := "?" + name + "=" + url.QueryEscape(value)
		if more != "" {
			q += "&" + more
		}
		out = append(out, q)
	}
	return out
}

// newServerWithRoleBinding returns a test server, and a token whose role counts only in namespace alpha. The namespace has
// nodes, events and a problem.
func newServerWithRoleBinding(t *testing.T) (r *apitest.Server, token string) {
	r = apitest.NewServer(t)
	r.Apply(alpha)
	r.DeclareNodes("alpha", nil, "a1", "a2")
	r.ConnectNodes("alpha", "a1", "a2")
	r.RecordResult("alpha", "a1", "disk", model.Critical, "full")
	r.RecordResult("alpha", "a2", "ping", model.OK, "fine")
	id, _ := r.Directory.NodeByName("alpha", "a1")
	check, _ := r.Directory.CheckByName("alpha", "disk")
	p := history.Problem{Namespace: "alpha", Node: "a1", SourceName: "disk", Problem: model.Problem{ID: "Palpha", NodeID: id, Source: model.CheckSource(check), Status: model.Critical, Opened: r.Now().Add(-time.Hour), Output: "full"}}
	testenv.NoError(t, r.History.Record(t.Context(), history.Batch{Opened: []history.Problem{p},
		Entries: []history.Entry{{At: p.Opened, Kind: history.StatusChanged, Namespace: "alpha", Node: "a1", NodeID: id, SourceName: "disk", Source: model.CheckSource(check), Status: model.Critical, Output: "full"}}}))
	token, _, err := r.Access.CreateToken(t.Context(), intent.Actor{User: "admin"}, access.AccessToken{User: "ann", Grants: access.Grants{Bindings: map[string]string{"alpha": access.Admin}, Run: true}})
	testenv.NoError(t, err)
	return r, token
}

var revisionPattern = regexp.MustCompile(`"revision":\d+`)

// sendAndReadAnswer sends the request and returns status and body, with revision numbers removed.
func (p *operationRequest) sendAndReadAnswer(t *testing.T, r *apitest.Server, token string) string {
	t.Helper()
	status, _, text := sendRequest(t, r, p.method, p.path, token, p.body, nil)
	if status >= 500 {
		t.Errorf("%s %s %s: %d %s", p.method, p.path, p.body, status, text)
	}
	return fmt.Sprint(status, " ", revisionPattern.ReplaceAllString(text, ""))
}

// hiddenNamespaceState returns all stored data and answers about the namespaces that the tested caller may not see.
func hiddenNamespaceState(t *testing.T, r *apitest.Server) (out []string) {
	for _, k := range kind.All().Kinds() {
		rows, err := r.Intent.Store().List(t.Context(), intent.ListQuery{Kind: k.Name})
		testenv.NoError(t, err)
		for _, row := range rows {
			if row.Namespace != "alpha" {
				out = append(out, fmt.Sprint(row.Key, row.Revision))
			}
		}
	}
	page, err := r.View.List(t.Context(), event.Query{Limit: 1000})
	testenv.NoError(t, err)
	for i := range page.States {
		if st := &page.States[i]; st.Namespace != 0 {
			out = append(out, fmt.Sprint(st.Node, st.Check, st.Status, st.Problem))
		}
	}
	tokens, err := intent.JoinTokens{Store: r.Intent.Store()}.List(t.Context())
	testenv.NoError(t, err)
	for _, u := range r.Access.Users() {
		out = append(out, fmt.Sprint(u.Name, u.Role, u.Bindings, u.Tokens))
	}
	return append(out, fmt.Sprint(len(tokens), len(r.Intent.ListTombstones())))
}

// TestBoundCallerSeesOnlyItsNamespaces compares answers with and without a hidden namespace, and expects no
// difference. The caller has a role in one other namespace only.
func TestBoundCallerSeesOnlyItsNamespaces(t *testing.T) {
	r, token := newServerWithRoleBinding(t)
	list := operationRequests(t, r, "quiet")
	before := make([]string, len(list))
	for i := range list {
		before[i] = list[i].sendAndReadAnswer(t, r, token)
	}
	for _, u := range r.Access.Users() {
		if u.Name != "admin" {
			t.Fatalf("user %s was created without the right to do so", u.Name)
		}
	}
	fillHiddenNamespace(t, r)
	was := hiddenNamespaceState(t, r)
	refused := 0
	for i, p := range list {
		after := p.sendAndReadAnswer(t, r, token)
		if after != before[i] {
			t.Errorf("%s: %s %s %s\nwithout the namespace: %s\nwith it: %s", p.operation, p.method, p.path, p.body, before[i], after)
		}
		if strings.Contains(strings.ToLower(after), marker) || !strings.Contains(p.path+p.body, "hush") && strings.Contains(after, "hush") {
			t.Errorf("%s: %s %s %s\nshows what is hidden: %s", p.operation, p.method, p.path, p.body, after)
		}
		if p.method != "GET" && !strings.HasPrefix(p.path, promapi.Prefix) && strings.HasPrefix(after, "2") && !strings.Contains(after, `"matched":0`) && !strings.Contains(after, `"outcomes":[]`) {
			t.Errorf("%s: %s %s %s was done: %s", p.operation, p.method, p.path, p.body, after)
		}
		if strings.HasPrefix(after, "403") {
			refused++
		}
	}
	if is := hiddenNamespaceState(t, r); !reflect.DeepEqual(is, was) {
		t.Errorf("changed:\n%v\nwas:\n%v", is, was)
	}
	t.Logf("%d requests, %d refused as forbidden", len(list), refused)
	if len(list) < 800 || refused < 300 {
		t.Error("too few operations were tested")
	}
	// An administrator sees the markers, so the test searches for texts that the server really shows.
	found := 0
	for _, p := range list {
		if p.method == "GET" && strings.Contains(strings.ToLower(p.sendAndReadAnswer(t, r, r.Token)), marker) {
			found++
		}
	}
	if found < 60 {
		t.Errorf("an administrator sees the marker in %d answers", found)
	}
}

// TestWatchOfABoundCallerShowsItsNamespace watches events as a caller with a role in one namespace, and expects only
// that namespace's events. The watch must end when the role changes.
func TestWatchOfABoundCallerShowsItsNamespace(t *testing.T) {
	r, _ := newServerWithRoleBinding(t)
	fillHiddenNamespace(t, r)
	_, err := r.Access.CreateUser(t.Context(), intent.Actor{User: "admin"}, access.User{Name: "ann", Grants: access.Grants{Bindings: map[string]string{"alpha": access.Viewer}}}, "four plain test words")
	testenv.NoError(t, err)
	token, _, err := r.Access.Login(t.Context(), "ann", "four plain test words", "here")
	testenv.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", r.URL+"/api/v1/events/watch", nil)
	testenv.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	testenv.NoError(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func(prefix string) string {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return lines.Text()
			}
		}
		t.Fatalf("the watch ended before %q: %v", prefix, lines.Err())
		return ""
	}
	next(": watching")
	r.RecordResult("quiet", "hush1", "hush-disk", model.OK, "fine "+marker)
	r.RecordResult("alpha", "a1", "disk", model.OK, "fine")
	if got := next("data:"); !strings.Contains(got, `"node":"a1"`) || strings.Contains(got, "hush") {
		t.Errorf("the first event of a watch: %s", got)
	}
	_, err = r.Access.Grant(t.Context(), intent.Actor{User: "admin"}, "ann", access.Grants{Bindings: map[string]string{"quiet": access.Viewer}})
	testenv.NoError(t, err)
	r.RecordResult("alpha", "a1", "disk", model.Critical, "full")
	next("event: end")
}

// TestRoleBindingPermitsOperationsOfItsRole acts with a role in one namespace, and expects all operations of the role to
// succeed. Other namespaces stay hidden.
func TestRoleBindingPermitsOperationsOfItsRole(t *testing.T) {
	r, token := newServerWithRoleBinding(t)
	fillHiddenNamespace(t, r)
	ctx, c := t.Context(), newTestClient(t, r, token)
	check := json.RawMessage(`{"kind":"Check","metadata":{"name":"load","namespace":"alpha"},"spec":{"targets":{"groups":["all"]},"interval":"60s","command":"check_load"}}`)
	if done, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check}}); err != nil || done.Affected != 2 {
		t.Errorf("apply: %+v %v", done, err)
	}
	testenv.NoError(t, r.Planner.CatchUp(ctx))
	if list, err := c.Events.List(ctx, v1.EventFilter{}); err != nil || len(list.Items) != 4 || list.Total != 4 { // two keepalives

		t.Errorf("events: %+v %v", list, err)
	}
	if st, err := c.Status(ctx, ""); err != nil || st.Nodes != 2 || st.Events != 4 || st.Problems != 1 || st.Handled.Silenced != 1 || len(st.Namespaces) != 0 {
		t.Errorf("status: %+v %v", st, err)
	}
	if why, err := c.Events.Trace(ctx, "alpha", "a2", "ping"); err != nil || len(why.Links) < 5 {
		t.Errorf("why a shared check: %+v %v", why, err)
	}
	testenv.NoError(t, c.Events.Acknowledge(ctx, "alpha", "a1", "disk", "mine", time.Time{}))
	made, err := c.Access.CreateToken(ctx, v1.TokenRequest{Note: "dashboard"})
	if err != nil || made.User != "ann" || made.Role != "" || made.Bindings["alpha"] != access.Viewer || len(made.Bindings) != 1 {
		t.Errorf("token: %+v %v", made, err)
	}
	viewer := newTestClient(t, r, made.Secret)
	if me, err := viewer.Access.WhoAmI(ctx); err != nil || me.Bindings["alpha"] != access.Viewer {
		t.Errorf("me: %+v %v", me, err)
	}
	assertRefused(t, model.Forbidden, "")(viewer.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check}}))
	assertRefused(t, model.Forbidden, "")(nil, viewer.Events.Acknowledge(ctx, "alpha", "a1", "disk", "", time.Time{}))
	testenv.NoError(t, c.Access.RevokeToken(ctx, made.ID))
}
