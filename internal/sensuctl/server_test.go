package sensuctl

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// requestWithPassword sends a request with user name and password to the test server.
func (w *testServer) requestWithPassword(path, user, password string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.SetBasicAuth(user, password)
	return w.serveRequest(r)
}

// TestLoginOpensSessionOfMuster checks login, refresh and logout of sensuctl, and the limit for wrong passwords.
func TestLoginOpensSessionOfMuster(t *testing.T) {
	w := newTestServer(t)
	answer := w.requestWithPassword("/auth", "admin", apitest.Password)
	var got struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Expires int64  `json:"expires_at"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Access == "" || got.Refresh == "" || got.Expires <= w.Now().Unix() {
		t.Fatalf("%d %+v %v", answer.StatusCode, got, err)
	}
	w.token = got.Access
	w.expectStatus(200, "GET", core+"/checks", "")
	if text := w.expectStatus(200, "POST", "/auth/token", `{"refresh_token":"x"}`); !strings.Contains(text, got.Access) {
		t.Error(text)
	}
	w.expectStatus(200, "POST", "/auth/logout", `{"refresh_token":"x"}`)
	if text := w.expectStatus(401, "GET", core+"/checks", ""); !strings.Contains(text, "sensuctl configure") {
		t.Error(text)
	}
	w.expectStatus(401, "POST", "/auth/token", `{}`)
	if s := w.requestWithPassword("/auth/test", "admin", apitest.Password).StatusCode; s != 200 {
		t.Errorf("test of good credentials: %d", s)
	}
	statuses := map[int]bool{}
	for range 30 {
		answer := w.requestWithPassword("/auth", "admin", "wrong")
		statuses[answer.StatusCode] = true
		if text, _ := io.ReadAll(answer.Body); strings.HasPrefix(string(text), "{") {
			t.Errorf("the answer to a wrong password is not plain text for sensuctl: %s", text)
		}
	}
	if !statuses[401] || !statuses[429] || len(statuses) != 2 {
		t.Errorf("thirty wrong passwords: %v", statuses)
	}
	if n := testutil.ToFloat64(w.server.requests.WithLabelValues("login", "429")); n == 0 {
		t.Error("requests with status 429 are not counted")
	}
}

// TestAPIKeyIsTokenOfMuster sends a Muster token in the place of Sensu's API key, and expects an accepted request.
func TestAPIKeyIsTokenOfMuster(t *testing.T) {
	w := newTestServer(t)
	r := httptest.NewRequest(http.MethodGet, core+"/checks", nil)
	r.Header.Set("Authorization", "Key "+w.Token)
	if s := w.serveRequest(r).StatusCode; s != 200 {
		t.Errorf("%d", s)
	}
}

// TestRolesDecidePermissions expects viewers, operators, agents and strangers to have the permissions of their roles.
func TestRolesDecidePermissions(t *testing.T) {
	check := `{"metadata":{"name":"ok","namespace":"default"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`
	silence := `{"metadata":{"namespace":"default"},"expire":60,"check":"ok","reason":"planned"}`
	w := newTestServer(t)
	w.loginAs("vera", "viewer")
	w.expectStatus(200, "GET", core+"/checks", "")
	w.expectStatus(403, "PUT", core+"/checks/ok", check)
	w.expectStatus(403, "POST", core+"/silenced", silence)
	w.loginAs("olga", "operator")
	w.expectStatus(403, "PUT", core+"/checks/ok", check)
	w.expectStatus(403, "DELETE", core+"/checks/ok", "")
	w.expectStatus(201, "POST", core+"/silenced", silence)
	w.expectStatus(204, "DELETE", core+"/silenced/%2A:ok", "")
	w.loginAs("agent", "agent")
	w.expectStatus(403, "GET", core+"/checks", "")
	w.token = ""
	w.expectStatus(401, "GET", core+"/checks", "")
	w.expectStatus(401, "PUT", core+"/checks/ok", check)
	w.expectStatus(401, "GET", "/api/core/v2/clusterroles", "")
}

// TestFaultyRequestsAreRefused expects refusals of invalid names, unknown namespaces, too long bodies and bodies
// without JSON.
func TestFaultyRequestsAreRefused(t *testing.T) {
	w := newTestServer(t)
	w.expectStatus(404, "GET", "/api/core/v2/namespaces/nope/checks", "")
	w.expectStatus(404, "GET", "/api/core/v2/namespaces/nope/events", "")
	w.expectStatus(404, "GET", "/api/core/v2/namespaces/nope/silenced", "")
	w.expectStatus(404, "GET", core+"/checks/..%2f..%2fusers", "")
	w.expectStatus(422, "PUT", core+"/checks/x", "no")
	w.expectStatus(413, "PUT", core+"/checks/x", `{"command":"`+strings.Repeat("x", maxBody)+`"}`)
	w.expectStatus(422, "GET", core+"/checks?fieldSelector=nonsense", "")
	if text := w.expectStatus(422, "PUT", core+"/handlers/x", `{"metadata":{"name":"x"},"type":"grpc"}`); !strings.Contains(text, `handlers of type \"grpc\" are not supported`) {
		t.Error(text)
	}
	w.expectStatus(201, "PUT", core+"/checks/x", `{"metadata":{"name":"x"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`)
	w.expectStatus(409, "POST", core+"/checks", `{"metadata":{"name":"x"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`)
	if text := w.expectStatus(404, "GET", "/no/such/page", ""); !strings.Contains(text, "openapi") {
		t.Errorf("Muster's API does not answer a path that is not Sensu's: %s", text)
	}
}

// TestPassiveCheckRoundTrip imports a Sensu check without command and publish, and expects a passive check
// (results from outside). The check stays passive when it is sent again.
func TestPassiveCheckRoundTrip(t *testing.T) {
	w := newTestServer(t)
	w.expectStatus(201, "PUT", core+"/checks/backup", `{"metadata":{"name":"backup"},"command":"","publish":false,"interval":60,"subscriptions":["linux"],"ttl":600,"check_hooks":[{"critical":["ps"]}]}`)
	w.expectStatus(201, "PUT", core+"/hooks/ps", `{"metadata":{"name":"ps"},"command":"ps","timeout":10}`)
	passive := func() {
		t.Helper()
		got, err := w.Intent.Get(t.Context(), resourceKeyOf("Check", "backup"))
		if c, _ := got.Spec.(*model.CheckSpec); err != nil || c == nil || !c.Passive || c.Disabled || c.TTL == 0 || len(c.Hooks) != 0 {
			t.Errorf("%+v %v", got, err)
		}
	}
	passive()
	dumped := w.expectStatus(200, "GET", core+"/checks/backup", "")
	w.expectStatus(204, "DELETE", core+"/checks/backup", "")
	w.expectStatus(201, "PUT", core+"/checks/backup", dumped)
	passive()
}

// TestPutKeepsReferencedResources replaces a resource by PUT, and expects the groups and nodes that the resource names
// to stay.
func TestPutKeepsReferencedResources(t *testing.T) {
	w := newTestServer(t)
	w.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: linux}\nspec: {where: 'node.facts.os == \"linux\"'}\n---\napiVersion: muster/v1\nkind: Node\nmetadata: {name: switch1, labels: {rack: a7}}\nspec: {proxy: true}\n")
	w.expectStatus(201, "PUT", core+"/checks/ping", `{"metadata":{"name":"ping"},"command":"ping","interval":10,"publish":true,"subscriptions":["linux","new"],"proxy_entity_name":"switch1"}`)
	got, err := w.Intent.Get(t.Context(), resourceKeyOf("Group", "linux"))
	if err != nil || got.Spec.(*model.GroupSpec).Where == "" || got.Spec.(*model.GroupSpec).SelfJoin {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = w.Intent.Get(t.Context(), resourceKeyOf("Node", "switch1")); err != nil || got.Metadata.Labels["rack"] != "a7" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = w.Intent.Get(t.Context(), resourceKeyOf("Group", "new")); err != nil || !got.Spec.(*model.GroupSpec).SelfJoin {
		t.Errorf("%+v %v", got, err)
	}
}

// TestCheckGetsLaterReferences creates a check before the resources in its references, and expects complete
// references at the end. The command sensuctl create needs this.
func TestCheckGetsLaterReferences(t *testing.T) {
	w := newTestServer(t)
	w.expectStatus(201, "PUT", core+"/checks/disk", `{"metadata":{"name":"disk"},"command":"true","interval":10,"publish":true,"subscriptions":["all"],"handlers":["Keep","chat"],"check_hooks":[{"non-zero":["ps"]},{"critical":["df"]}],"pipelines":[{"name":"flow","type":"Pipeline","api_version":"core/v2"}],"runtime_assets":["Tools"]}`)
	if text := w.expectStatus(200, "GET", core+"/checks/disk", ""); !strings.Contains(text, "hook ps non-zero, hook df critical, asset tools, pipeline flow, handler keep, handler chat") {
		t.Error(text)
	}
	w.expectStatus(201, "PUT", core+"/handlers/Keep", `{"metadata":{"name":"Keep"},"type":"pipe","command":"cat","filters":["is_incident"]}`)
	w.expectStatus(201, "PUT", core+"/handlers/chat", `{"metadata":{"name":"chat"},"type":"pipe","command":"sensu-slack-handler --channel '#ops'","env_vars":["SLACK_WEBHOOK_URL=https://hooks.slack.com/services/T/B/X"],"filters":["is_incident","not_silenced"]}`)
	w.expectStatus(201, "PUT", core+"/hooks/ps", `{"metadata":{"name":"ps"},"command":"ps","timeout":10}`)
	w.expectStatus(201, "PUT", core+"/hooks/df", `{"metadata":{"name":"df"},"command":"df","timeout":10}`)
	w.expectStatus(201, "PUT", core+"/pipelines/flow", `{"metadata":{"name":"flow"},"workflows":[{"name":"a","handler":{"name":"Keep"}}]}`)
	w.expectStatus(201, "POST", core+"/assets", `{"type":"Asset","api_version":"core/v2","metadata":{"name":"Tools","namespace":"default"},"spec":{"url":"https://example.com/tools.tar.gz","sha512":"`+strings.Repeat("a", 128)+`","filters":null}}`)
	m := testenv.Value(w.Intent.Get(t.Context(), resourceKeyOf("Check", "disk")))(t)
	c := m.Spec.(*model.CheckSpec)
	if !slices.Equal(c.Pipelines, []string{"flow", "sensu-keep", "sensu-chat"}) || c.Alert != nil {
		t.Errorf("%v %+v", c.Pipelines, c.Alert)
	}
	if len(c.Hooks) != 2 || c.Hooks[0].Hook != "ps" || c.Hooks[0].When[0] != "non-ok" || c.Hooks[1].When[0] != "critical" {
		t.Errorf("hooks of the check: %+v", c.Hooks)
	}
	if !slices.Equal(c.Assets, []string{"tools"}) {
		t.Errorf("assets of the check: %v", c.Assets)
	}
	if len(m.Metadata.Annotations) != 0 {
		t.Errorf("%v", m.Metadata.Annotations)
	}
}

// TestPipelineGetsLaterHandlers sends a pipeline before its handlers, and expects complete workflows after the
// handlers have arrived. Filters and mutators also come later; all workflows stay, also for a handler set.
func TestPipelineGetsLaterHandlers(t *testing.T) {
	w := newTestServer(t)
	workflows := `[{"name":"a","handler":{"name":"Keep"},"filters":[{"name":"night"}],"mutator":{"name":"short"}},{"name":"b","handler":{"name":"both"}}]`
	w.expectStatus(201, "PUT", core+"/pipelines/flow", `{"metadata":{"name":"flow"},"workflows":`+workflows+`}`)
	w.expectStatus(201, "PUT", core+"/checks/disk", `{"metadata":{"name":"disk"},"command":"true","interval":10,"publish":true,"subscriptions":["all"],"pipelines":[{"name":"flow","type":"Pipeline","api_version":"core/v2"}]}`)
	if text := w.expectStatus(200, "GET", core+"/pipelines/flow", ""); !strings.Contains(text, `"handler both"`) && !strings.Contains(text, "handler keep, handler both") {
		t.Error(text)
	}
	workflowsOf := func() (list []string) {
		m := testenv.Value(w.Intent.Get(t.Context(), resourceKeyOf("Pipeline", "flow")))(t)
		for _, f := range m.Spec.(*model.PipelineSpec).Workflows {
			list = append(list, f.Name+">"+f.Handler+strings.Join(f.Filters, ",")+f.Mutator)
		}
		if len(list) == 3 && len(m.Metadata.Annotations) > 0 {
			t.Errorf("%v", m.Metadata.Annotations)
		}
		return list
	}
	if got := workflowsOf(); len(got) != 0 {
		t.Error(got)
	}
	w.expectStatus(201, "PUT", core+"/handlers/Keep", `{"metadata":{"name":"Keep"},"type":"pipe","command":"cat"}`)
	if got := workflowsOf(); !slices.Equal(got, []string{"a>keepnightshort"}) {
		t.Error(got)
	}
	w.expectStatus(201, "PUT", core+"/filters/night", `{"metadata":{"name":"night"},"action":"allow","expressions":["true"]}`)
	w.expectStatus(201, "PUT", core+"/mutators/short", `{"metadata":{"name":"short"},"command":"cut -c1-80"}`)
	w.expectStatus(201, "PUT", core+"/handlers/chat", `{"metadata":{"name":"chat"},"type":"pipe","command":"tee"}`)
	w.expectStatus(201, "PUT", core+"/handlers/both", `{"metadata":{"name":"both"},"type":"set","handlers":["Keep","chat"]}`)
	if got := workflowsOf(); !slices.Equal(got, []string{"a>keepnightshort", "b-1>keep", "b-2>chat"}) {
		t.Error(got)
	}
}

// TestUnsupportedRequestsNameCommand sends requests without an equivalent in Muster, and expects answers that name a
// Muster command. The HTTP status must let sensuctl continue with a dump.
func TestUnsupportedRequestsNameCommand(t *testing.T) {
	w := newTestServer(t)
	for path, want := range map[string]string{
		"PUT /api/core/v2/users/vera":                     "muster auth user create",
		"DELETE /api/core/v2/users/vera":                  "muster auth user delete vera",
		"PUT /api/core/v2/clusterroles/mine":              "muster auth user create",
		"DELETE /api/core/v2/clusterrolebindings/view":    "muster auth user delete",
		"PUT /api/core/v2/users/vera/reset_password":      "muster auth reset-password --data DIR --user vera",
		"PUT /api/core/v2/users/vera/password":            "muster auth password",
		"GET /api/core/v2/apikeys":                        "muster auth token list",
		"PATCH " + core + "/assets/x":                     "muster asset add",
		"PUT " + core + "/roles/mine":                     "muster auth user create",
		"PUT " + core + "/rolebindings/x":                 "muster auth user create",
		"POST " + core + "/checks/disk/execute":           "muster run disk",
		"PATCH " + core + "/checks/disk/hooks/critical":   "muster edit check disk",
		"DELETE " + core + "/entities/web01":              "muster node retire web01",
		"POST " + core + "/events":                        "muster run CHECK",
		"DELETE /api/core/v2/namespaces/team":             "muster delete namespace team",
		"GET /api/core/v2/tessen":                         "Muster sends no usage data",
		"GET /api/enterprise/licensing/v2/license":        "Muster has no licences",
		"GET /api/enterprise/store/v1/provider":           "muster help",
		"PUT /api/core/v3/namespaces/default/nothing/web": "muster help",
		"PATCH " + core + "/checks/disk":                  "muster apply",
	} {
		method, path, _ := strings.Cut(path, " ")
		text := w.expectStatus(501, method, path, "{}")
		if !strings.Contains(text, want) || !strings.Contains(text, `"code":2`) {
			t.Errorf("%s %s: %s", method, path, text)
		}
	}
}

// TestEveryTypeHasCommands expects a Muster command for reading, creating and deleting each type of Sensu resource.
func TestEveryTypeHasCommands(t *testing.T) {
	for kind := range sensuTypes {
		if of := commandsOf(kind); slices.Contains(of[:], "") {
			t.Errorf("%s: %q", kind, of)
		}
	}
}

// TestListsArePaged lists three checks, and expects two pages.
func TestListsArePaged(t *testing.T) {
	w := newTestServer(t)
	for _, name := range []string{"a", "b", "c"} {
		w.expectStatus(201, "PUT", core+"/checks/"+name, `{"metadata":{"name":"`+name+`"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`)
	}
	seen, query := "", url.Values{"limit": {"2"}}
	for pages := 1; ; pages++ {
		answer := w.request("GET", core+"/checks?"+query.Encode(), "")
		var list []object
		testenv.NoError(t, json.NewDecoder(answer.Body).Decode(&list))
		for _, o := range list {
			seen += o["metadata"].(object)["name"].(string)
		}
		next := answer.Header.Get("Sensu-Continue")
		if next == "" {
			if seen != "abc" || pages != 2 {
				t.Errorf("%s in %d pages", seen, pages)
			}
			return
		}
		query.Set("continue", next)
	}
}

// TestRolesAreReadOnly expects roles and bindings in lists, and refusals of all writes. A role of a dump can be sent
// back unchanged; no other is accepted.
func TestRolesAreReadOnly(t *testing.T) {
	w := newTestServer(t)
	var list []struct {
		Metadata struct{ Name string }
		Rules    []struct{ Verbs, Resources []string }
		RoleRef  struct{ Name string } `json:"role_ref"`
		Subjects []struct{ Type, Name string }
	}
	groups := map[string]string{}
	for _, kind := range []string{"clusterroles", "clusterrolebindings"} {
		list = nil
		testenv.NoError(t, json.Unmarshal([]byte(w.expectStatus(200, "GET", "/api/core/v2/"+kind+"?types=X&limit=100", "")), &list))
		if len(list) != 4 {
			t.Errorf("%s: %+v", kind, list)
		}
		for _, one := range list {
			text := w.expectStatus(200, "GET", "/api/core/v2/"+kind+"/"+one.Metadata.Name, "")
			w.expectStatus(200, "PUT", "/api/core/v2/"+kind+"/"+one.Metadata.Name, text)
			if kind == "clusterroles" && len(one.Rules) == 0 {
				t.Errorf("%+v", one)
			}
			for _, s := range one.Subjects {
				groups[s.Name] = one.RoleRef.Name
			}
		}
	}
	for _, role := range sensuRoles {
		if groups[role.group] == "" {
			t.Errorf("users with the role %s are in the group %s, which has no role", role.ours, role.group)
		}
	}
	w.expectStatus(501, "PUT", "/api/core/v2/clusterroles/view", `{"metadata":{"name":"view"},"rules":[{"verbs":["*"],"resources":["*"]}]}`)
	w.expectStatus(404, "GET", "/api/core/v2/clusterroles/edit", "")
	for _, kind := range []string{"roles", "rolebindings"} {
		if text := strings.TrimSpace(w.expectStatus(200, "GET", core+"/"+kind, "")); text != "[]" {
			t.Errorf("%s: %s", kind, text)
		}
		w.expectStatus(200, "GET", "/api/core/v2/"+kind, "")
		w.expectStatus(404, "GET", core+"/"+kind+"/x", "")
		w.expectStatus(404, "GET", "/api/core/v2/namespaces/nope/"+kind, "")
	}
	if text := w.expectStatus(200, "GET", "/api/core/v2/clusterroles?fieldSelector=clusterrole.name%20%3D%3D%20view", ""); !strings.Contains(text, "view") || strings.Contains(text, "operator") {
		t.Error(text)
	}
	w.expectStatus(422, "GET", "/api/core/v2/clusterroles?fieldSelector=check.name%20%3D%3D%20view", "")
}

// fakeAPI answers requests like Muster's API with a single check, for fuzzing sensuctl's requests. It accepts
// every user.
func fakeAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/api/v1/me":
		_, _ = w.Write([]byte(`{"user":"admin","role":"admin","token":"1"}`))
	case "/api/v1/checks/default/x":
		_, _ = w.Write([]byte(`{"kind":"Check","metadata":{"name":"x","namespace":"default"},"spec":{"command":"true","interval":"10s","targets":{"nodes":["a"]}}}`))
	case "/api/v1/checks":
		_, _ = w.Write([]byte(`{"items":[{"kind":"Check","metadata":{"name":"x","namespace":"default"},"spec":{"command":["a","b"],"cron":"* * * * *"}}]}`))
	default:
		_, _ = w.Write([]byte(`{}`))
	}
}

// FuzzRequest sends random requests of an existing user, and expects no internal error. Each answer is valid JSON.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/core/v2/namespaces/default/checks", "fieldSelector=check.name == x", "")
	f.Add("GET", "/api/core/v2/namespaces/default/checks/x", "", "")
	f.Add("GET", "/api/core/v2/namespaces/default/silenced/subscriptions/web", "limit=-1&continue=x", "")
	f.Add("PUT", "/api/core/v2/namespaces/default/checks/x", "", `{"metadata":{"name":"x"},"command":"true {{ .labels.a }}","interval":10,"subscriptions":["a"],"handlers":["b"],"check_hooks":[{"critical":["h"]}],"output_metric_handlers":["m"]}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/handlers/x", "", `{"type":"Handler","spec":{"type":"set","handlers":["a","b"],"filters":["f"],"mutator":"m"}}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/pipelines/x", "", `{"workflows":[{"name":"a","handler":{"name":"h"},"filters":[{"name":"f"}],"mutator":{"name":"m"}}]}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/entities/x", "", `{"entity_class":"proxy","subscriptions":["a"]}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/silenced/a:b", "", `{"subscription":"a","check":"b","expire":60}`)
	f.Add("POST", "/api/core/v2/namespaces/default/silenced", "", `{"check":"b","begin":1,"expire_at":99999999999}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/events/a/b", "", `{"check":{"status":0,"output":"Resolved manually by sensuctl"}}`)
	f.Add("PUT", "/api/core/v2/namespaces/x", "", `{"name":"x"}`)
	f.Add("DELETE", "/api/core/v2/namespaces/default/silenced/%2A:x", "", "")
	f.Add("GET", "/api/core/v3/namespaces/a%2fb/entity-configs", "", "")
	f.Add("POST", "/auth/token", "", "{}")
	s := New(Options{API: http.HandlerFunc(fakeAPI), Now: func() time.Time { return time.Unix(1_795_000_000, 0) }})
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		r, err := http.NewRequest(method, "http://muster"+path, strings.NewReader(body))
		if err != nil || !IsSensuPath(r.URL.EscapedPath()) {
			return
		}
		r.URL.RawQuery = query
		r.RemoteAddr = "192.0.2.1:1234"
		r.Header.Set("Authorization", "Bearer x")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		text := w.Body.Bytes()
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && len(text) > 0 && !json.Valid(text) {
			t.Errorf("%s %s: %s", method, path, text)
		}
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %s %q: %s", method, path, body, text)
		}
	})
}

const core = "/api/core/v2/namespaces/default"

// TestSensuctlConversationMatchesGolden replays the requests of several sensuctl commands, and compares the answers
// with a golden file. The commands are create -f, check, entity, event and silenced.
func TestSensuctlConversationMatchesGolden(t *testing.T) {
	w := newTestServer(t)
	w.recordExchange("PUT", "/api/core/v2/namespaces/team", `{"name":"team"}`)
	w.recordExchange("GET", "/api/core/v2/namespaces", "")
	w.recordExchange("PUT", core+"/hooks/ps", `{"metadata":{"name":"ps","namespace":"default"},"command":"ps aux","timeout":10,"stdin":false,"runtime_assets":null}`)
	w.recordExchange("PUT", core+"/filters/fourth", `{"metadata":{"name":"fourth","namespace":"default"},"action":"allow","expressions":["event.check.occurrences == 4"],"runtime_assets":null}`)
	w.recordExchange("PUT", core+"/mutators/js", `{"metadata":{"name":"js","namespace":"default"},"timeout":0,"env_vars":null,"type":"javascript","eval":"return 1"}`)
	w.recordExchange("PUT", core+"/handlers/tofile", `{"metadata":{"name":"tofile","namespace":"default"},"type":"pipe","command":"cat","timeout":5,"handlers":null,"filters":["is_incident","fourth"],"mutator":"js","env_vars":null,"runtime_assets":null,"secrets":null}`)
	w.recordExchange("PUT", core+"/handlers/all", `{"metadata":{"name":"all","namespace":"default"},"type":"set","handlers":["tofile"]}`)
	w.recordExchange("PUT", core+"/checks/Disk_Root", `{"metadata":{"name":"Disk_Root","namespace":"default","labels":{"team":"ops","sensu.io/managed_by":"sensuctl"}},"command":"disk {{ .labels.warn | default \"80\" }}","handlers":["tofile","nowhere"],"high_flap_threshold":50,"interval":10,"low_flap_threshold":20,"publish":true,"runtime_assets":["plugins"],"subscriptions":["linux","entity:web01"],"proxy_entity_name":"","check_hooks":[{"critical":["ps"]}],"stdin":false,"subdue":null,"ttl":60,"timeout":5,"round_robin":false,"output_metric_format":"nagios_perfdata","output_metric_handlers":null,"env_vars":["A=b"],"secrets":null,"pipelines":[]}`)
	w.recordExchange("GET", core+"/checks/disk_root", "")
	sum := strings.Repeat("a", 128)
	w.recordExchange("POST", core+"/assets", `{"type":"Asset","api_version":"core/v2","metadata":{"name":"Plugins","namespace":"default"},"spec":{"url":"https://example.com/p.tar.gz","sha512":"`+sum+`","filters":["entity.system.os == 'linux'","entity.system.arch == 'amd64'"],"builds":null,"headers":{"Authorization":"Bearer s3cret"}}}`)
	w.recordExchange("PUT", core+"/assets/many", `{"metadata":{"name":"many","namespace":"default"},"builds":[{"url":"https://example.com/a.tar.gz","sha512":"`+sum+`","filters":null},{"url":"https://example.com/b.tar.gz","sha512":"`+strings.Repeat("b", 128)+`","filters":["entity.system.platform == 'redhat'","parseInt(entity.system.platform_version.split('.')[0]) == 9"]}]}`)
	w.recordExchange("GET", core+"/assets", "")
	w.recordExchange("GET", core+"/assets/Plugins", "")
	w.recordExchange("DELETE", core+"/assets/many", "")
	w.recordExchange("GET", core+"/assets/many", "")
	w.recordExchange("GET", core+"/handlers", "")
	w.recordExchange("GET", core+"/pipelines/sensu-tofile", "")
	w.recordExchange("GET", core+"/hooks", "")
	w.recordExchange("GET", core+"/mutators", "")
	w.recordExchange("PUT", core+"/entities/router", `{"entity_class":"proxy","system":{"network":{"interfaces":null}},"subscriptions":["net"],"last_seen":0,"deregister":false,"deregistration":{},"metadata":{"name":"router","namespace":"default","labels":{"region":"eu"}}}`)
	w.recordExchange("GET", core+"/entities/router", "")

	w.JoinNode("web01", map[string]string{"os": "linux", "hostname": "web01.example", "sensuEntity": "Web01"})
	w.RecordResult("default", "web01", "disk_root", model.Critical, "disk full")
	w.RecordResult("default", "web01", "disk_root", model.Critical, "disk full")
	w.recordExchange("GET", core+"/events?limit=100", "")
	w.recordExchange("POST", core+"/silenced", `{"metadata":{"namespace":"default"},"expire":3600,"expire_on_resolve":true,"check":"Disk_Root","reason":"planned","begin":0,"expire_at":0}`)
	w.recordExchange("POST", core+"/silenced", `{"metadata":{"namespace":"default"},"expire":-1,"expire_on_resolve":false,"check":"Disk_Root","reason":"again","begin":0,"expire_at":0}`)
	w.recordExchange("GET", core+"/silenced", "")
	w.recordExchange("GET", core+"/silenced/checks/disk_root", "")
	w.recordExchange("GET", core+"/silenced/subscriptions/linux", "")
	w.recordExchange("DELETE", core+"/silenced/%2A:Disk_Root", "")
	w.recordExchange("GET", core+"/silenced", "")
	w.recordExchange("PUT", core+"/events/Web01/Disk_Root", `{"timestamp":1795374936,"entity":{"metadata":{"name":"Web01","namespace":"default"}},"check":{"status":0,"output":"Resolved manually by sensuctl","metadata":{"name":"Disk_Root","namespace":"default"}}}`)
	w.recordExchange("GET", core+"/events/Web01/Disk_Root", "")
	w.recordExchange("PUT", core+"/events/Web01/Disk_Root", `{"check":{"status":0,"output":"all is well"}}`)
	w.recordExchange("DELETE", core+"/events/Web01/Disk_Root", "")
	w.recordExchange("GET", core+"/events/Web01/Disk_Root", "")
	w.compareTranscript("conversation.txt")
}

// TestRiskyRequestsNameCommand sends a change that affects too many nodes at once, and expects a refusal with
// Muster's command. The error names the Muster command, because sensuctl has no --yes.
func TestRiskyRequestsNameCommand(t *testing.T) {
	w := newTestServer(t)
	w.server.maxAffected = 50
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("web%02d", i)
	}
	w.DeclareNodes("default", map[string]string{"os": "linux"}, names...)
	w.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: linux}\nspec: {where: 'node.labels.os == \"linux\"'}\n---\n" +
		"apiVersion: muster/v1\nkind: Check\nmetadata: {name: disk}\nspec: {command: \"true\", interval: 1m, targets: {groups: [linux]}}\n")
	refused := func(method, path, body, command string) {
		t.Helper()
		text := w.expectStatus(http.StatusPreconditionRequired, method, path, body)
		if !strings.Contains(text, "sensuctl cannot confirm a large change; check the change, then type: "+command+")") {
			t.Errorf("%s %s: %s", method, path, text)
		}
		for _, flag := range []string{"--dry-run", "--max-affected"} {
			if strings.Contains(text, flag) {
				t.Errorf("%s %s speaks of %s: %s", method, path, flag, text)
			}
		}
	}
	silence := `{"metadata":{"namespace":"default"},"subscription":"linux","check":"disk","expire":3600,"reason":"the site's down"}`
	command := `muster silence --group linux --check disk --until 2026-11-20T13:00:00Z -m 'the site'\\''s down' --yes`
	refused("POST", core+"/silenced", silence, command)
	refused("PUT", core+"/silenced/linux:disk", silence, command)
	w.Apply("apiVersion: muster/v1\nkind: Silence\nmetadata: {name: disks}\nspec: {where: 'source.name.startsWith(\"disk\")', reason: repair}\n")
	if text := w.expectStatus(200, "GET", core+"/silenced", ""); !strings.Contains(text, `"name":"disks"`) || !strings.Contains(text, "muster describe silence disks") {
		t.Errorf("a silence with a condition is shown without it: %s", text)
	}
	refused("POST", core+"/silenced", `{"metadata":{"namespace":"default"},"subscription":"linux","expire":-1,"expire_on_resolve":true,"reason":"x"}`,
		"muster silence --group linux --until-resolved -m x --yes")
	refused("PUT", core+"/checks/load", `{"metadata":{"name":"load"},"command":"true","interval":60,"publish":true,"subscriptions":["linux"]}`, applyCommand)
	refused("DELETE", core+"/checks/disk", "", "muster delete check disk --yes")
	w.expectStatus(201, "POST", core+"/silenced", `{"metadata":{"namespace":"default"},"subscription":"entity:web01","expire":60,"reason":"x"}`)
	w.server.maxAffected = 0
	w.expectStatus(201, "POST", core+"/silenced", silence)
	w.expectStatus(201, "POST", core+"/silenced", `{"metadata":{"namespace":"default"},"subscription":"linux","expire":-1,"reason":"x"}`)
	if text := w.expectStatus(200, "GET", core+"/silenced/subscriptions/linux", ""); !strings.Contains(text, `"name":"linux:*"`) || strings.Contains(text, "muster describe") {
		t.Errorf("a silence of a subscription is not shown as sent: %s", text)
	}
	w.expectStatus(201, "PUT", core+"/checks/load", `{"metadata":{"name":"load"},"command":"true","interval":60,"publish":true,"subscriptions":["linux"]}`)
	w.expectStatus(204, "DELETE", core+"/checks/disk", "")
	audit := w.expectStatus(200, "GET", "/api/v1/changes?kind=Check&limit=2", "")
	if want := "by sensuctl (changes 60 nodes; more than 50 need a confirmation)"; strings.Count(audit, want) != 2 {
		t.Errorf("the audit of two changes lacks %q: %s", want, audit)
	}
}

// TestSilenceCommandHasAllFields expects a suggested muster command that makes a silence with all fields of the
// request.
func TestSilenceCommandHasAllFields(t *testing.T) {
	w := newTestServer(t)
	at := model.Time{Time: w.Now()}
	for want, s := range map[string]model.SilenceSpec{
		"muster silence web01 --check disk --forever -m x -n eu --yes": {Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web01"}}, Checks: []string{"disk"}}, Reason: "x"},
		"muster silence --all --from 2026-11-20T12:00:00Z --until 2026-11-20T12:00:00Z --until-resolved -m '$(x) `y`' -n eu --yes": {
			Begin: at, Until: at, UntilResolved: true, Reason: "$(x) `y`"},
		"muster silence --check disk --forever -m '-x' -n eu --yes": {Selector: model.Selector{Checks: []string{"disk"}}, Reason: "-x"},
	} {
		if got := silenceCommand("eu", &s); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestEventInfoHasHooksAndMetrics expects one event to have its hook results and values in Sensu's form. The health of
// the server is answered without a login.
func TestEventInfoHasHooksAndMetrics(t *testing.T) {
	w := newTestServer(t)
	w.Apply(string(testenv.Value(os.ReadFile("testdata/imported.yaml"))(t)))
	w.JoinNode("web01", map[string]string{"os": "linux"})
	r := &request{Request: httptest.NewRequest("GET", core+"/events", nil), server: w.server, muster: client.InProcess(w.Handler, "", w.token), resources: map[v1.Ref]*model.Resource{}}
	e := v1.Event{Event: model.Event{Namespace: "default", Node: "web01", Check: "check_cpu", Executed: time.Unix(100, 0),
		Hooks: []model.HookResult{{Name: "ps", Output: "init"}}, Values: []model.Value{{Name: "load", Value: 2}}}}
	o := testenv.Value(eventForm(r, e))(t)
	data := string(testenv.Value(json.Marshal(o))(t))
	for _, want := range []string{`"hooks":[{"command":"","duration":0,"executed":100`, `"output":"init\n"`, `"metrics":{"handlers":null,"points":[{"name":"load","tags":null,"timestamp":100,"value":2}]}`} {
		if !strings.Contains(data, want) {
			t.Errorf("%s is missing in %s", want, data)
		}
	}
	w.token = ""
	if text := w.expectStatus(200, "GET", "/health", ""); !strings.Contains(text, `"Healthy":true`) {
		t.Error(text)
	}
}
