package sensuctl

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// randomResources makes random resources for a test of dumps and their import. Their fields have another form in a dump,
// such as times without check runs, handlers of keepalives, secret labels, and silences of the same scope.
func randomResources(t *rapid.T) string {
	pick := func(name string, options ...string) string { return rapid.SampledFrom(options).Draw(t, name) }
	some := func(name string, options ...string) string {
		return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(options), 0, 3, rapid.ID[string]).Draw(t, name), ", ")
	}
	text := ""
	add := func(kind, name, meta, spec string) {
		text += fmt.Sprintf("---\napiVersion: muster/v1\nkind: %s\nmetadata: {name: %s, namespace: default%s}\nspec: {%s}\n", kind, name, meta, spec)
	}
	add("Window", "subdue-busy", "", `timeZone: Europe/Paris, spans: [{during: "22:00-06:00"}]`)
	add("Window", "night", "", `timeZone: UTC, spans: [{during: "01:00-02:00"}]`)
	for _, name := range []string{"busy", "idle"} {
		add("Check", name, `, labels: {team: web`+pick("check label", "", ", password: hunter2")+`}`, fmt.Sprintf(
			`targets: {%s}, command: "echo %s", interval: %s, sensu: %s, schedule: {except: [%s]}%s%s`,
			pick("targets", "groups: [system]", "groups: [system, net], nodes: [sw1]", "nodes: [sw1]"), pick("command", "hi", "{{ .labels.team | default \\\"x\\\" }}"),
			pick("interval", "1m", "90s", "1500ms"), "true",
			some("except", `{during: "22:00-06:00 UTC"}`, `{during: "sun 10:00-11:00 UTC"}`, `{during: "22:00-07:00 Europe/Paris"}`, `{window: subdue-busy}`, `{window: night}`),
			pick("alert", "", ", alert: {failAfter: 3}", ", alert: {flapping: {start: 60, end: 20}}"), pick("pipelines", "", ", pipelines: [sensu-tcp]", ", pipelines: [p1, sensu-influx]")))
	}
	add("Node", "sw1", `, labels: {kind: switch`+pick("label", "", ", password: hunter2", ", api_key: x")+`}, annotations: {note: y`+pick("annotation", "", ", secret: z")+`}`,
		"proxy: true, groups: ["+some("groups", "net", "system")+"]")
	add("Node", "db1", "", "keepalive: {"+pick("receivers", "timeout: 5m", "pipelines: [sensu-tcp]", "pipelines: [p1]", "handlers: [tcp]", "handlers: [tcp], pipelines: [p1, sensu-influx]")+
		"}"+pick("lifecycle", "", ", lifecycle: {ephemeral: true, handlers: [tcp]}", ", lifecycle: {ephemeral: true, forgetAfter: 2h}"))
	for i := range rapid.IntRange(0, 3).Draw(t, "silences") {
		add("Silence", fmt.Sprintf("s%d", i), "", "checks: ["+pick("silenced", "busy", "idle", "busy, idle")+"]"+pick("scope", "", ", targets: {groups: [system]}", ", targets: {nodes: [sw1]}", ", statuses: [critical]")+
			", reason: "+pick("reason", "move", "deploy (by bob)")+pick("until", ", until: 2036-12-24T18:00:00Z", ", untilResolved: true", ""))
	}
	return text
}

// randomAgentReport returns random data that a Sensu agent could report about its machine. It has labels and
// subscriptions that only the agent declares, and keys whose values the agent redacts.
func randomAgentReport(t *rapid.T) model.NodeSpec {
	some := func(name string, options ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(options), 0, 3, rapid.ID[string]).Draw(t, name)
	}
	spec := model.NodeSpec{Facts: map[string]string{"os": "linux", "hostname": "web02.example"}, AgentLabels: map[string]string{}, AgentGroups: some("agent's groups", "system", "net")}
	for _, key := range some("agent's labels", "team", "kind", "os", "Mixed_Case") {
		spec.AgentLabels[key] = rapid.SampledFrom([]string{"a", "switch", ""}).Draw(t, key)
	}
	annotations := map[string]string{"note": "n 1"}
	for _, key := range some("redacted", "password", "api_key", "db_password") {
		spec.AgentLabels[key], annotations[key], spec.Facts["annotation."+key] = model.RedactedValue, model.RedactedValue, model.RedactedValue
	}
	entity, err := json.Marshal(map[string]any{"name": "Web_02", "entity_class": "agent", "labels": spec.AgentLabels, "annotations": annotations,
		"subscriptions": append([]string{"entity:Web_02"}, spec.AgentGroups...), "redact": []string{"password", "api_key", "db_password"}})
	if err != nil {
		t.Fatal(err)
	}
	spec.AgentEntity = entity
	return spec
}

// TestDumpsRoundTrip sends dumps of random resources back, and expects no resource to change. The dumps also contain
// random reports of a Sensu agent.
func TestDumpsRoundTrip(t *testing.T) {
	w := newTestServer(t)
	w.Apply(string(testenv.Value(os.ReadFile("testdata/imported.yaml"))(t)))
	w.JoinNode("web01", map[string]string{"os": "linux", "hostname": "web01.example"})
	w.RecordResult("default", "web01", "check_cpu", model.Critical, "busy")
	rapid.Check(t, func(t *rapid.T) {
		text := randomResources(t)
		w.Apply(text)
		w.JoinNodeWith("web_02", map[string]string{"owner": "ann"}, randomAgentReport(t))
		before := w.listRevisions()
		paths, docs := w.dumpResources("checks", "entities", "entity-configs", "silenced")
		for i, o := range docs {
			data, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if answer := w.request("PUT", paths[i], string(data)); answer.StatusCode != 200 {
				t.Errorf("%s: %s\n%s", paths[i], answer.Status, data)
			}
		}
		if after := w.listRevisions(); after != before {
			t.Fatalf("a dump that was sent back changed resources:\n%s\nwant\n%s", after, before)
		}
	})
}

// TestEntityIsAsReported expects a node's entity to have the fields, annotations and subscriptions that its
// Sensu agent reported. Declared fields are there, too.
func TestEntityIsAsReported(t *testing.T) {
	w := newTestServer(t)
	w.Apply("{apiVersion: muster/v1, kind: Group, metadata: {name: web-servers}, spec: {selfJoin: true}}")
	w.JoinNodeWith("web_02", nil, model.NodeSpec{Facts: map[string]string{"sensuEntity": "Web_02"}, AgentGroups: []string{"web-servers"}, AgentLabels: map[string]string{"team": "a"}, AgentEntity: json.RawMessage(
		`{"name":"Web_02","entity_class":"agent","user":"agent","redact":["token"],"labels":{"team":"a"},"annotations":{"note":"n 1","token":"REDACTED"},
		"subscriptions":["Web Servers"],"keepalive_handlers":["theirs"],"system":{"os":"linux","platform_family":"debian","network":{"interfaces":[{"name":"eth0"}]}}}`)})
	got := w.expectStatus(200, "GET", core+"/entities/Web_02", "")
	for _, want := range []string{`"user":"agent"`, `"redact":["token"]`, `"note":"n 1"`, `"token":"REDACTED"`, `"team":"a"`, `"subscriptions":["entity:Web_02","Web Servers"]`, `"platform_family":"debian"`, `"name":"eth0"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "theirs") {
		t.Errorf("handlers that the agent names are shown as declared: %s", got)
	}
}
