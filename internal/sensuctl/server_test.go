package sensuctl

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/model"
)

func (w *world) requestWithPassword(path, user, password string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.SetBasicAuth(user, password)
	return w.do(r)
}

// A login is one of the API's: its passwords, its sessions, its bound on tries.
func TestLogin(t *testing.T) {
	w := newWorld(t)
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
	w.expect(200, "GET", core+"/checks", "")
	if text := w.expect(200, "POST", "/auth/token", `{"refresh_token":"x"}`); !strings.Contains(text, got.Access) {
		t.Error(text)
	}
	w.expect(200, "POST", "/auth/logout", `{"refresh_token":"x"}`)
	if text := w.expect(401, "GET", core+"/checks", ""); !strings.Contains(text, "sensuctl configure") {
		t.Error(text)
	}
	w.expect(401, "POST", "/auth/token", `{}`)
	if s := w.requestWithPassword("/auth/test", "admin", apitest.Password).StatusCode; s != 200 {
		t.Errorf("test of good credentials: %d", s)
	}
	statuses := map[int]bool{}
	for range 30 {
		answer := w.requestWithPassword("/auth", "admin", "wrong")
		statuses[answer.StatusCode] = true
		if text, _ := io.ReadAll(answer.Body); strings.HasPrefix(string(text), "{") {
			t.Errorf("sensuctl shows this as it is: %s", text)
		}
	}
	if !statuses[401] || !statuses[429] || len(statuses) != 2 {
		t.Errorf("thirty wrong passwords: %v", statuses)
	}
	if n := testutil.ToFloat64(w.server.requests.WithLabelValues("login", "429")); n == 0 {
		t.Error("not counted")
	}
}

// An API key is a token.
func TestAPIKey(t *testing.T) {
	w := newWorld(t)
	r := httptest.NewRequest(http.MethodGet, core+"/checks", nil)
	r.Header.Set("Authorization", "Key "+w.Token)
	if s := w.do(r).StatusCode; s != 200 {
		t.Errorf("%d", s)
	}
}

// Who may do what is the API's to say.
func TestPermissions(t *testing.T) {
	check := `{"metadata":{"name":"ok","namespace":"default"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`
	silence := `{"metadata":{"namespace":"default"},"expire":60,"check":"ok","reason":"planned"}`
	w := newWorld(t)
	w.loginAs("vera", "viewer")
	w.expect(200, "GET", core+"/checks", "")
	w.expect(403, "PUT", core+"/checks/ok", check)
	w.expect(403, "POST", core+"/silenced", silence)
	w.loginAs("olga", "operator")
	w.expect(403, "PUT", core+"/checks/ok", check)
	w.expect(403, "DELETE", core+"/checks/ok", "")
	w.expect(201, "POST", core+"/silenced", silence)
	w.expect(204, "DELETE", core+"/silenced/%2A:ok", "")
	w.loginAs("agent", "agent")
	w.expect(403, "GET", core+"/checks", "")
	w.token = ""
	w.expect(401, "GET", core+"/checks", "")
	w.expect(401, "PUT", core+"/checks/ok", check)
	w.expect(401, "GET", "/api/core/v2/clusterroles", "")
}

// Names that are none, namespaces that are not there, bodies that are too long or no JSON.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.expect(404, "GET", "/api/core/v2/namespaces/nope/checks", "")
	w.expect(404, "GET", "/api/core/v2/namespaces/nope/events", "")
	w.expect(404, "GET", "/api/core/v2/namespaces/nope/silenced", "")
	w.expect(404, "GET", core+"/checks/..%2f..%2fusers", "")
	w.expect(422, "PUT", core+"/checks/x", "no")
	w.expect(413, "PUT", core+"/checks/x", `{"command":"`+strings.Repeat("x", maxBody)+`"}`)
	w.expect(422, "GET", core+"/checks?fieldSelector=nonsense", "")
	if text := w.expect(422, "PUT", core+"/handlers/x", `{"metadata":{"name":"x"},"type":"grpc"}`); !strings.Contains(text, `handlers of the type \"grpc\" are not known`) {
		t.Error(text)
	}
	w.expect(201, "PUT", core+"/checks/x", `{"metadata":{"name":"x"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`)
	w.expect(409, "POST", core+"/checks", `{"metadata":{"name":"x"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`)
	if text := w.expect(404, "GET", "/no/such/page", ""); !strings.Contains(text, "openapi") {
		t.Errorf("what is none of sensuctl's is the API's: %s", text)
	}
}

// A check that is not published and runs nothing is passive, as what is shown of one reads.
func TestPassiveCheckRoundTrip(t *testing.T) {
	w := newWorld(t)
	w.expect(201, "PUT", core+"/checks/backup", `{"metadata":{"name":"backup"},"command":"","publish":false,"interval":60,"subscriptions":["linux"],"ttl":600,"check_hooks":[{"critical":["ps"]}]}`)
	w.expect(201, "PUT", core+"/hooks/ps", `{"metadata":{"name":"ps"},"command":"ps","timeout":10}`)
	passive := func() {
		t.Helper()
		got, err := w.Intent.Get(t.Context(), keyOf("Check", "backup"))
		if c, _ := got.Spec.(*model.CheckSpec); err != nil || c == nil || !c.Passive || c.Disabled || c.TTL == 0 || len(c.Hooks) != 0 {
			t.Errorf("%+v %v", got, err)
		}
	}
	passive()
	dumped := w.expect(200, "GET", core+"/checks/backup", "")
	w.expect(204, "DELETE", core+"/checks/backup", "")
	w.expect(201, "PUT", core+"/checks/backup", dumped)
	passive()
}

// What is declared here and only named there stays as it is.
func TestPutKeepsReferencedResources(t *testing.T) {
	w := newWorld(t)
	w.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: linux}\nspec: {where: 'node.facts.os == \"linux\"'}\n---\napiVersion: muster/v1\nkind: Node\nmetadata: {name: switch1, labels: {rack: a7}}\nspec: {proxy: true}\n")
	w.expect(201, "PUT", core+"/checks/ping", `{"metadata":{"name":"ping"},"command":"ping","interval":10,"publish":true,"subscriptions":["linux","new"],"proxy_entity_name":"switch1"}`)
	got, err := w.Intent.Get(t.Context(), keyOf("Group", "linux"))
	if err != nil || got.Spec.(*model.GroupSpec).Where == "" || got.Spec.(*model.GroupSpec).SelfJoin {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = w.Intent.Get(t.Context(), keyOf("Node", "switch1")); err != nil || got.Metadata.Labels["rack"] != "a7" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = w.Intent.Get(t.Context(), keyOf("Group", "new")); err != nil || !got.Spec.(*model.GroupSpec).SelfJoin {
		t.Errorf("%+v %v", got, err)
	}
}

// sensuctl create -f sends the check of a dump before its handlers, hooks and pipelines: with each
// of those the check gets it, and nothing more is missing.
func TestCheckGetsLaterReferences(t *testing.T) {
	w := newWorld(t)
	w.expect(201, "PUT", core+"/checks/disk", `{"metadata":{"name":"disk"},"command":"true","interval":10,"publish":true,"subscriptions":["all"],"handlers":["Keep","chat"],"check_hooks":[{"non-zero":["ps"]},{"critical":["df"]}],"pipelines":[{"name":"flow","type":"Pipeline","api_version":"core/v2"}],"runtime_assets":["Tools"]}`)
	if text := w.expect(200, "GET", core+"/checks/disk", ""); !strings.Contains(text, "hook ps non-zero, hook df critical, asset tools, pipeline flow, handler keep, handler chat") {
		t.Error(text)
	}
	w.expect(201, "PUT", core+"/handlers/Keep", `{"metadata":{"name":"Keep"},"type":"pipe","command":"cat","filters":["is_incident"]}`)
	w.expect(201, "PUT", core+"/handlers/chat", `{"metadata":{"name":"chat"},"type":"pipe","command":"sensu-slack-handler --channel '#ops'","env_vars":["SLACK_WEBHOOK_URL=https://hooks.slack.com/services/T/B/X"],"filters":["is_incident","not_silenced"]}`)
	w.expect(201, "PUT", core+"/hooks/ps", `{"metadata":{"name":"ps"},"command":"ps","timeout":10}`)
	w.expect(201, "PUT", core+"/hooks/df", `{"metadata":{"name":"df"},"command":"df","timeout":10}`)
	w.expect(201, "PUT", core+"/pipelines/flow", `{"metadata":{"name":"flow"},"workflows":[{"name":"a","handler":{"name":"Keep"}}]}`)
	w.expect(201, "POST", core+"/assets", `{"type":"Asset","api_version":"core/v2","metadata":{"name":"Tools","namespace":"default"},"spec":{"url":"https://example.com/tools.tar.gz","sha512":"`+strings.Repeat("a", 128)+`","filters":null}}`)
	m, err := w.Intent.Get(t.Context(), keyOf("Check", "disk"))
	if err != nil {
		t.Fatal(err)
	}
	c := m.Spec.(*model.CheckSpec)
	if !slices.Equal(c.Pipelines, []string{"sensu-keep", "flow"}) || c.Alert == nil || !slices.Equal(c.Alert.Handlers, []string{"chat"}) {
		t.Errorf("%v %+v", c.Pipelines, c.Alert)
	}
	if len(c.Hooks) != 2 || c.Hooks[0].Hook != "ps" || c.Hooks[0].When[0] != "non-ok" || c.Hooks[1].When[0] != "critical" {
		t.Errorf("%+v", c.Hooks)
	}
	if !slices.Equal(c.Assets, []string{"tools"}) {
		t.Errorf("%v", c.Assets)
	}
	if len(m.Metadata.Annotations) != 0 {
		t.Errorf("%v", m.Metadata.Annotations)
	}
}

// Everything else is answered with the command to type instead, and sensuctl dump goes on.
func TestUnsupportedRequestsNameCommand(t *testing.T) {
	w := newWorld(t)
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
		"GET /api/core/v2/tessen":                         "Muster sends nothing home",
		"GET /health":                                     "muster status",
		"GET /api/enterprise/licensing/v2/license":        "there are no licences",
		"GET /api/enterprise/store/v1/provider":           "muster help",
		"PUT /api/core/v3/namespaces/default/nothing/web": "muster help",
		"PATCH " + core + "/checks/disk":                  "muster apply",
	} {
		method, path, _ := strings.Cut(path, " ")
		text := w.expect(501, method, path, "{}")
		if !strings.Contains(text, want) || !strings.Contains(text, `"code":2`) {
			t.Errorf("%s %s: %s", method, path, text)
		}
	}
}

// Each type that sensuctl knows has a command for reading, making and deleting.
func TestEveryTypeHasCommands(t *testing.T) {
	for kind := range types {
		if of := commandsOf(kind); slices.Contains(of[:], "") {
			t.Errorf("%s: %q", kind, of)
		}
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.expect(201, "PUT", core+"/checks/"+name, `{"metadata":{"name":"`+name+`"},"command":"true","interval":10,"publish":true,"subscriptions":["all"]}`)
	}
	seen, query := "", url.Values{"limit": {"2"}}
	for pages := 1; ; pages++ {
		answer := w.request("GET", core+"/checks?"+query.Encode(), "")
		var list []object
		if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
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
