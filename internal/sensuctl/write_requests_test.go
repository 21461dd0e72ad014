package sensuctl

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

const musterYAML = `---
apiVersion: muster/v1
kind: Group
metadata: {name: linux, namespace: default}
spec: {nodes: [web01]}
---
apiVersion: muster/v1
kind: Handler
metadata: {name: chat, namespace: default}
spec: {slack: {url: "https://hooks.slack.com/services/T0/B0/XX"}}
---
apiVersion: muster/v1
kind: Hook
metadata: {name: top, namespace: default}
spec: {command: top -bn1, timeout: 5s}
---
apiVersion: muster/v1
kind: Check
metadata: {name: disk, namespace: default, displayName: "Disk of all", labels: {team: db}, annotations: {runbook: "https://example.com/disk"}}
spec:
  targets: {groups: [linux], where: 'node.labels["role"] == "db"'}
  command: check_disk -w 10%
  interval: 1m
  dependsOn: [ping]
  hooks: [{when: [critical], hook: top}, {name: space, when: [critical], command: df -h}]
  alert: {failAfter: 3, recoverAfter: 2, handlers: [chat]}
---
apiVersion: muster/v1
kind: Check
metadata: {name: load, namespace: default}
spec: {targets: {where: 'node.labels["role"] == "db"'}, command: check_load, interval: 1m}
---
apiVersion: muster/v1
kind: Check
metadata: {name: ping, namespace: default}
spec: {targets: {groups: [linux]}, probe: {name: http, args: {url: "https://example.com/"}}, interval: 1m}
`

// expressibleYAML is disk without the fields that have no equivalent in Sensu.
const expressibleYAML = `---
apiVersion: muster/v1
kind: Check
metadata: {name: disk, namespace: default, labels: {team: db}, annotations: {runbook: "https://example.com/disk"}}
spec:
  targets: {groups: [linux]}
  command: check_disk -w 10%
  interval: 1m
  hooks: [{when: [critical], hook: top}]
  alert: {handlers: [chat]}
`

// changeResource changes one field of a resource through Sensu's API, like sensuctl check set-…. It reads the resource
// and sends it back.
func (w *testServer) changeResource(status int, path string, change func(object)) string {
	w.t.Helper()
	var o object
	testenv.NoError(w.t, json.Unmarshal([]byte(w.expectStatus(200, "GET", path, "")), &o))
	change(o)
	data := testenv.Value(json.Marshal(o))(w.t)
	return w.expectStatus(status, "PUT", path, string(data))
}

// declaredResource returns a resource in the form in which the test server stores the resource.
func (w *testServer) declaredResource(kind, name string) *model.Resource {
	w.t.Helper()
	m := testenv.Value(w.Intent.Get(w.t.Context(), resourceKeyOf(kind, name)))(w.t)
	return m
}

// TestPutReplacesWholeCheck sends a PUT of a check, and expects new values in all fields and the owner sensu.
func TestPutReplacesWholeCheck(t *testing.T) {
	w := newTestServer(t)
	w.Apply(musterYAML)
	w.Apply(expressibleYAML)
	path := core + "/checks/disk"
	text := func() string {
		m := w.declaredResource("Check", "disk")
		data, err := json.Marshal(object{"spec": m.Spec, "labels": m.Metadata.Labels, "annotations": m.Metadata.Annotations, "name": m.Metadata.DisplayName, "owner": m.Metadata.Owner})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	was := strings.Replace(text(), `"owner":""`, `"owner":"sensu"`, 1)
	was = strings.Replace(was, `"interval":"1m"`, `"interval":"1m","timeout":"1m","sensu":true`, 1) // the default becomes explicit
	for _, c := range []struct {
		command     string
		change      func(object)
		before, now string // in the declared resource
	}{
		{"set-interval", func(o object) { o["interval"] = 30 }, `"interval":"1m"`, `"interval":"30s"`},
		{"set-command", func(o object) { o["command"] = "check_disk -w 5%" }, `10%`, `5%`},
		{"set-timeout", func(o object) { o["timeout"] = 7 }, `"timeout":"1m"`, `"timeout":"7s"`},
		{"set-subscriptions", func(o object) { o["subscriptions"] = []any{"linux", "web"} }, `["linux"]`, `["linux","web"]`},
		{"a label more", func(o object) { o["metadata"].(object)["labels"].(object)["tier"] = "1" }, `"labels":{"team":"db"}`, `"labels":{"team":"db","tier":"1"}`},
		{"a label less", func(o object) { delete(o["metadata"].(object)["labels"].(object), "team") }, `"team":"db",`, ``},
		{"remove-handlers", func(o object) { o["handlers"] = []any{} }, `,"alert":{"handlers":["chat"]}`, ``},
		{"no hooks", func(o object) { o["check_hooks"] = []any{} }, `,"hooks":[{"when":["critical"],"hook":"top"}]`, ``},
		{"set-subscriptions to none", func(o object) { o["subscriptions"] = []any{} }, `"targets":{"groups":["linux","web"]}`, `"targets":{"groups":["all"]},"disabled":true`},
	} {
		w.changeResource(201, path, c.change)
		if was = strings.Replace(was, c.before, c.now, 1); !equalJSON(t, text(), was) {
			t.Fatalf("%s:\n%s\nwant\n%s", c.command, text(), was)
		}
	}
}

// TestHooksAreAddedAndRemoved adds hooks to a check and removes each hook, and expects the right hooks after
// every step.
func TestHooksAreAddedAndRemoved(t *testing.T) {
	w := newTestServer(t)
	w.Apply(musterYAML)
	w.Apply(expressibleYAML)
	is := func(want string) {
		t.Helper()
		if data, err := json.Marshal(w.declaredResource("Check", "disk").Spec.(*model.CheckSpec).Hooks); err != nil || string(data) != want {
			t.Errorf("the hooks of check disk are %s, want %s (%v)", data, want, err)
		}
	}
	hooks := core + "/checks/disk/hooks"
	w.expectStatus(201, "PUT", core+"/hooks/ps", `{"command":"ps aux","timeout":5}`)
	w.expectStatus(204, "PUT", hooks+"/critical", `{"type":"HookList","api_version":"core/v2","metadata":{},"spec":{"critical":["ps","top"]}}`)
	is(`[{"when":["critical"],"hook":"top"},{"when":["critical"],"hook":"ps"}]`)
	w.expectStatus(204, "PUT", hooks+"/non-zero", `{"non-zero":["ps"]}`)
	is(`[{"when":["critical"],"hook":"top"},{"when":["critical","non-ok"],"hook":"ps"}]`)
	w.expectStatus(204, "DELETE", hooks+"/critical/hook/top", "")
	w.expectStatus(204, "DELETE", hooks+"/critical/hook/ps", "")
	is(`[{"when":["non-ok"],"hook":"ps"}]`)
	w.expectStatus(404, "DELETE", hooks+"/critical/hook/ps", "")
	w.expectStatus(404, "DELETE", core+"/checks/nothing/hooks/critical/hook/ps", "")
	w.expectStatus(422, "PUT", hooks+"/critical", `{"warning":["ps"]}`)
	if said := w.expectStatus(422, "PUT", hooks+"/critical", `{"critical":["nothing"]}`); !strings.Contains(said, "nothing") {
		t.Error(said)
	}
}

// TestConcurrentHookChangesAreAllKept adds hooks to one check in parallel, and expects all hooks to stay.
func TestConcurrentHookChangesAreAllKept(t *testing.T) {
	w := newTestServer(t)
	w.Apply(musterYAML)
	w.Apply(expressibleYAML)
	var all, want []string
	for i := range 12 {
		name := fmt.Sprintf("hook-%02d", i)
		w.expectStatus(201, "PUT", core+"/hooks/"+name, `{"command":"ps aux","timeout":5}`)
		all = append(all, name)
	}
	var group sync.WaitGroup
	for _, name := range all {
		group.Go(func() { w.expectStatus(204, "PUT", core+"/checks/disk/hooks/warning", `{"warning":["`+name+`"]}`) })
	}
	group.Wait()
	for _, h := range w.declaredResource("Check", "disk").Spec.(*model.CheckSpec).Hooks {
		if strings.HasPrefix(h.Hook, "hook-") {
			want = append(want, h.Hook)
		}
	}
	if slices.Sort(want); !slices.Equal(all, want) {
		t.Errorf("hooks of check disk are %q, want %q", want, all)
	}
}

// equalJSON reports whether two JSON texts have the same value.
func equalJSON(t *testing.T, a, b string) bool {
	var as, bs any
	if err := json.Unmarshal([]byte(a), &as); err != nil {
		t.Fatal(a, err)
	}
	if err := json.Unmarshal([]byte(b), &bs); err != nil {
		t.Fatal(b, err)
	}
	a2, _ := json.Marshal(as)
	b2, _ := json.Marshal(bs)
	return string(a2) == string(b2)
}

// TestCreateIsIdempotent sends the same file twice, as sensuctl create does, and expects no change the second time. A
// changed file is applied.
func TestCreateIsIdempotent(t *testing.T) {
	w := newTestServer(t)
	w.Apply(`apiVersion: muster/v1
kind: Group
metadata: {name: switch, namespace: default}
spec: {}
---
apiVersion: muster/v1
kind: Group
metadata: {name: lab, namespace: default}
spec: {where: 'node.labels["a"] == "b"'}
`)
	send := func(o string) {
		path, body, _ := strings.Cut(o, " ")
		answer := w.request("PUT", core+"/"+path, body)
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode > 201 {
			t.Errorf("%s: %d %s %v", path, answer.StatusCode, text, err)
		}
	}
	for _, o := range []string{
		`filters/hourly {"action":"allow","expressions":["event.check.occurrences == 1"]}`,
		`mutators/strip {"type":"pipe","command":"strip","secrets":[{"name":"T","secret":"tok"}]}`,
		`hooks/df {"command":"df","timeout":5,"runtime_assets":["tool"]}`,
		`assets/tool {"builds":[{"url":"https://example.com/tool.tgz","sha512":"` + strings.Repeat("ab", 64) + `"}]}`,
		`handlers/chat {"type":"pipe","command":"cat","filters":["hourly"],"mutator":"strip"}`,
		`handlers/log {"type":"udp","socket":{"host":"127.0.0.1","port":514}}`,
		`handlers/page {"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident"]}`,
		`handlers/pagew {"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["hourly"]}`,
		`handlers/all {"type":"set","handlers":["chat","page"]}`,
		`pipelines/p {"workflows":[{"name":"a","handler":{"name":"chat","type":"Handler","api_version":"core/v2"}}]}`,
		`checks/c {"command":"check_disk","interval":60,"subscriptions":["linux"],"publish":true,"handlers":["chat","page","pagew"],"check_hooks":[{"critical":["df"]}],"ttl":180,"high_flap_threshold":50,"low_flap_threshold":20,"pipelines":[{"name":"p","type":"Pipeline","api_version":"core/v2"}],"output_metric_format":"nagios_perfdata","output_metric_handlers":["chat"],"proxy_requests":{"entity_attributes":["entity.labels.x == 'y'"],"splay":true,"splay_coverage":50},"subdues":[{"begin":"2026-01-01T17:00:00Z","end":"2026-01-02T09:00:00Z","repeat":["daily"]}]}`,
		`checks/d {"command":"check_x","cron":"*/5 * * * *","subscriptions":["linux","web"],"publish":true,"proxy_entity_name":"sw1","runtime_assets":["tool"],"stdin":true,"env_vars":["A=b"]}`,
		`checks/nowhere {"command":"check_x","interval":60,"publish":true}`,
		`entities/sw1 {"entity_class":"proxy","subscriptions":["switch"],"metadata":{"name":"sw1","namespace":"default","labels":{"a":"b"}}}`,
	} {
		send(o)
		was := w.listRevisions()
		send(o)
		send(o)
		if now := w.listRevisions(); now != was {
			t.Errorf("%s\nsent again changes resources:\n%s\nwant\n%s", o, now, was)
		}
		if path, _, _ := strings.Cut(o, " "); path != "handlers/all" { // of a set, the members are the form
			labeled := strings.TrimSuffix(o, "}") + `,"metadata":{"labels":{"a":"b"}}}`
			if send(labeled); w.listRevisions() == was && !strings.Contains(o, `"labels"`) {
				t.Errorf("%s\nis not changed", labeled)
			}
			send(o)
		}
	}
	testenv.Until(t, "sw1 is in the group of its label", func() bool { return strings.Contains(w.expectStatus(200, "GET", core+"/entities/sw1", ""), `"lab"`) })
	for _, o := range []string{
		`entities/sw1 {"entity_class":"proxy","subscriptions":["switch","floor2"],"metadata":{"name":"sw1","namespace":"default","labels":{"a":"b"}}}`,
		`handlers/page {"type":"pipe","command":"sensu-pagerduty-handler --token k2","filters":["is_incident"]}`,
	} {
		send(o)
	}
	if n := w.declaredResource("Node", "sw1").Spec.(*model.NodeSpec); !slices.Equal(n.Groups, []string{"switch", "floor2"}) {
		t.Errorf("sw1 is in %v", n.Groups)
	}
	if text, _ := json.Marshal(w.declaredResource("Handler", "page").Spec); !strings.Contains(string(text), `--token k2"`) {
		t.Errorf("handler page is %s", text)
	}
	w.changeResource(201, core+"/entities/sw1", func(o object) { o["subscriptions"] = append(o["subscriptions"].([]any), "rack3") })
	if n := w.declaredResource("Node", "sw1").Spec.(*model.NodeSpec); !slices.Equal(n.Groups, []string{"switch", "floor2", "rack3"}) {
		t.Errorf("after entity update sw1 is in %v", n.Groups)
	}
	if text := w.expectStatus(501, "PUT", core+"/handlers/page", `{"type":"set","handlers":["chat"]}`); !strings.Contains(text, "type muster delete handler page") {
		t.Error(text)
	}
	for _, o := range []string{
		`checks/nowhere {"command":"check_x","interval":30,"publish":true}`,
		`checks/d {"command":"check_x","interval":60,"publish":true}`,
	} {
		path, body, _ := strings.Cut(o, " ")
		w.expectStatus(201, "PUT", core+"/"+path, body)
		if c := w.declaredResource("Check", strings.TrimPrefix(path, "checks/")).Spec.(*model.CheckSpec); !c.Disabled { // in Sensu it runs nowhere
			t.Errorf("%s: %+v", path, c)
		}
	}
}

// TestPutRefusesForeignAndUnsupportedResources sends a PUT for resources of other tools or with unsupported fields,
// and expects refusals. The error names Muster's command.
func TestPutRefusesForeignAndUnsupportedResources(t *testing.T) {
	w := newTestServer(t)
	w.Apply(musterYAML + `---
apiVersion: muster/v1
kind: Check
metadata: {name: team, namespace: default, owner: team-a}
spec: {targets: {groups: [linux]}, command: check_team, interval: 1m}
---
apiVersion: muster/v1
kind: Check
metadata: {name: changed, namespace: default, owner: sensu}
spec: {targets: {groups: [linux]}, command: check_changed, interval: 1m, alert: {failAfter: 3}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: title, namespace: default, displayName: The title}
spec: {targets: {groups: [linux]}, command: check_title, interval: 1m}
`)
	w.expectStatus(201, "PUT", core+"/hooks/ps", `{"command":"ps aux","timeout":5}`)
	before := w.listRevisions()
	interval := func(o object) { o["interval"] = 30 }
	for text, want := range map[string]string{
		w.changeResource(501, core+"/checks/disk", interval):                                                                                  "cannot express its alert.failAfter; type muster edit check disk",
		w.changeResource(501, core+"/checks/load", interval):                                                                                  "cannot express its targets.where; type muster edit check load",
		w.changeResource(501, core+"/checks/ping", func(o object) { o["command"] = "ping" }):                                                  "cannot express its probe; type muster edit check ping",
		w.changeResource(501, core+"/checks/changed", interval):                                                                               "cannot express its alert; type muster edit check changed",
		w.changeResource(501, core+"/checks/title", interval):                                                                                 "cannot express its displayName; type muster edit check title",
		w.changeResource(501, core+"/checks/team", interval):                                                                                  "belongs to team-a; type muster edit check team",
		w.expectStatus(501, "DELETE", core+"/checks/team", ""):                                                                                "belongs to team-a; type muster delete check team",
		w.expectStatus(501, "PUT", core+"/checks/disk/hooks/warning", `{"warning":["ps"]}`):                                                   "type muster edit check disk",
		w.expectStatus(501, "PUT", core+"/handlers/chat", `{"metadata":{"name":"chat","namespace":"default"},"type":"pipe","command":"cat"}`): "cannot express its slack; type muster edit handler chat",
		w.expectStatus(200, "GET", core+"/handlers", ""):                                                                                      "echo 'Muster notifies slack itself: muster get handler chat -o yaml'",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the refusal is %s, want %s", text, want)
		}
	}
	if after := w.listRevisions(); after != before {
		t.Errorf("refused requests changed resources:\n%s\nwant\n%s", after, before)
	}
}

// TestHandlerSetKeepsFiltersOfHandlers expects each handler of a handler set to keep its own filters and mutator.
func TestHandlerSetKeepsFiltersOfHandlers(t *testing.T) {
	w := newTestServer(t)
	for _, o := range []string{
		`filters/hourly {"action":"allow","expressions":["event.check.occurrences == 1"]}`,
		`mutators/strip {"type":"pipe","command":"strip"}`,
		`handlers/chat {"type":"pipe","command":"cat","filters":["hourly"],"mutator":"strip"}`,
		`handlers/log {"type":"udp","socket":{"host":"127.0.0.1","port":514}}`,
		`handlers/page {"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident"]}`,
		`handlers/all {"type":"set","handlers":["chat","log","page"],"filters":["is_incident"]}`,
	} {
		path, body, _ := strings.Cut(o, " ")
		w.expectStatus(201, "PUT", core+"/"+path, body)
	}
	data, err := json.Marshal(w.declaredResource("Pipeline", model.SensuPipeline("all")).Spec)
	const want = `{"workflows":[{"name":"chat","filters":["hourly"],"mutator":"strip","handler":"chat"},{"name":"log","handler":"log"},` +
		`{"name":"page","filters":["is_incident"],"handler":"page"}]}`
	if err != nil || string(data) != want {
		t.Errorf("%s %v\nwant %s", data, err, want)
	}
}

// TestHandlerSetFollowsChangedHandlers changes handlers of an imported handler set, and expects the pipeline of
// the set to change too.
func TestHandlerSetFollowsChangedHandlers(t *testing.T) {
	w := newTestServer(t)
	put := func(status int, o string) string {
		path, body, _ := strings.Cut(o, " ")
		return w.expectStatus(status, "PUT", core+"/"+path, body)
	}
	is := func(set, want string) {
		t.Helper()
		var flows []string
		for _, f := range w.declaredResource("Pipeline", model.SensuPipeline(set)).Spec.(*model.PipelineSpec).Workflows {
			flows = append(flows, f.Handler+":"+strings.Join(f.Filters, "+"))
		}
		if got := strings.Join(flows, " "); got != want {
			t.Errorf("%s is %s, want %s", set, got, want)
		}
	}
	put(201, `handlers/all {"type":"set","handlers":["chat","page"]}`)
	is("all", "")
	put(201, `filters/hourly {"action":"allow","expressions":["event.check.occurrences == 1"]}`)
	put(201, `filters/often {"action":"allow","expressions":["event.check.occurrences == 2"]}`)
	put(201, `handlers/chat {"type":"pipe","command":"cat","filters":["hourly"]}`)
	put(201, `handlers/all {"type":"set","handlers":["chat","page","inner"]}`)
	is("all", "chat:hourly")
	if said := w.declaredResource("Pipeline", "sensu-all").Metadata.Annotations[lossAnnotation]; said != "handler page does not exist yet; handler inner does not exist yet" {
		t.Error(said)
	}
	put(201, `handlers/chat {"type":"pipe","command":"cat","filters":["often"]}`)
	is("all", "chat:often")
	put(201, `handlers/page {"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident"]}`)
	is("all", "chat:often page:is_incident")
	put(201, `handlers/log {"type":"udp","socket":{"host":"127.0.0.1","port":514}}`)
	put(201, `handlers/inner {"type":"set","handlers":["log","chat"]}`)
	is("all", "chat:often page:is_incident log:")
	if said := w.declaredResource("Pipeline", "sensu-all").Metadata.Annotations[lossAnnotation]; said != "" {
		t.Error(said)
	}
	put(201, `handlers/log {"type":"udp","socket":{"host":"127.0.0.1","port":514},"filters":["hourly"]}`)
	is("all", "chat:often page:is_incident log:hourly")
	is("inner", "log:hourly chat:often")
	put(201, `handlers/outer {"type":"set","handlers":["inner"]}`)
	is("outer", "log:hourly chat:often")
	put(201, `handlers/inner {"type":"set","handlers":["log","inner"]}`)
	is("inner", "log:hourly")
	is("outer", "log:hourly")
	for _, name := range []string{"outer", "inner", "all", "log"} {
		w.expectStatus(204, "DELETE", core+"/handlers/"+name, "")
	}
	w.expectStatus(404, "DELETE", core+"/handlers/log", "")
	w.expectStatus(404, "GET", core+"/pipelines/sensu-log", "")
	put(201, `checks/c {"command":"x","interval":60,"subscriptions":["linux"],"publish":true,"handlers":["chat"]}`)
	if said := w.expectStatus(409, "DELETE", core+"/handlers/chat", ""); !strings.Contains(said, "check/c") {
		t.Error(said)
	}
}

// TestHandlersAndSetsAreShownAsSent expects Sensu's API to show handlers and handler sets exactly as sensuctl
// sent the JSON. Lists and single answers are checked; a check shows the handlers that it names.
func TestHandlersAndSetsAreShownAsSent(t *testing.T) {
	w := newTestServer(t)
	sent := map[string]string{
		"handlers/Alert": `{"type":"set","handlers":["Chat","page","later"]}`,
		"handlers/Chat":  `{"type":"pipe","command":"sensu-slack-handler -w https://hooks.example.com/x -t \"{{ .Check.Output }}\"","env_vars":["A={{ .Check.Name }}"],"filters":["is_incident"],"timeout":7}`,
		"handlers/page":  `{"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident","not_silenced"],"mutator":"only_check_output"}`,
		"checks/disk": `{"command":"true","interval":10,"publish":true,"subscriptions":["all"],"handlers":["Alert","page"],"output_metric_format":"nagios_perfdata",` +
			`"output_metric_handlers":["Chat"],"pipelines":[{"name":"flow","type":"Pipeline","api_version":"core/v2"}]}`,
		"pipelines/flow": `{"workflows":[{"name":"a","handler":{"name":"Chat","type":"Handler","api_version":"core/v2"}}]}`,
	}
	for _, path := range []string{"handlers/Alert", "checks/disk", "handlers/Chat", "handlers/page", "pipelines/flow"} { // in an order that sensuctl may send
		w.expectStatus(201, "PUT", core+"/"+path, sent[path])
	}
	listed := map[string]string{}
	for _, kind := range []string{"handlers", "checks"} {
		_, docs := w.dumpResources(kind)
		for _, o := range docs {
			data := testenv.Value(json.Marshal(o))(t)
			listed[kind+"/"+o["metadata"].(object)["name"].(string)] = string(data)
		}
	}
	for path, body := range sent {
		if strings.HasPrefix(path, "pipelines/") {
			continue
		}
		want := testenv.Value(toJSON(json.RawMessage(body)))(t)
		for _, text := range []string{listed[path], w.expectStatus(200, "GET", core+"/"+path, "")} {
			got := testenv.Value(toJSON(json.RawMessage(text)))(t)
			for field := range want {
				a, b := fmt.Sprint(got[field]), fmt.Sprint(want[field])
				if strings.HasPrefix(path, "checks/") { // names of handlers in checks are Muster's
					a, b = strings.ToLower(a), strings.ToLower(b)
				}
				if a != b {
					t.Errorf("%s: %s is %s, want %s", path, field, a, b)
				}
			}
		}
		w.expectStatus(200, "PUT", core+"/"+path, w.expectStatus(200, "GET", core+"/"+path, ""))
	}
}

// TestCheckWithTagsHasAMetricFormat converts a check with metric tags but without a metric format, and expects
// the default format. Sensu's form has the default format.
func TestCheckWithTagsHasAMetricFormat(t *testing.T) {
	spec := &model.CheckSpec{Command: &model.Command{Shell: "true"}, Interval: model.Duration(60e9), Metrics: &model.Metrics{Tags: map[string]string{"team": "print"}}}
	o := testenv.Value(checkForm(&request{}, &model.Resource{Metadata: model.Metadata{Name: "queue", Namespace: "default"}, Spec: spec}))(t)
	if o["output_metric_format"] != "nagios_perfdata" || o["output_metric_tags"] == nil {
		t.Errorf("%v", o)
	}
}
