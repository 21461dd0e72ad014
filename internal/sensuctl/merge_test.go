package sensuctl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

const ours = `---
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

// change is what sensuctl does for check set-…: it sends all that it was shown, with one change.
func (w *world) change(status int, path string, change func(object)) string {
	w.t.Helper()
	var o object
	if err := json.Unmarshal([]byte(w.want(200, "GET", path, "")), &o); err != nil {
		w.t.Fatal(err)
	}
	change(o)
	data, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.want(status, "PUT", path, string(data))
}

func (w *world) declared(kind, name string) *model.Resource {
	w.t.Helper()
	m, err := w.Intent.Get(w.t.Context(), keyOf(kind, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// A change by sensuctl changes what it was shown, and leaves what Sensu has no words for.
func TestAChangeKeepsWhatIsNotShown(t *testing.T) {
	w := newWorld(t)
	w.Apply(ours)
	path := core + "/checks/disk"
	text := func() string {
		m := w.declared("Check", "disk")
		data, err := json.Marshal(object{"spec": m.Spec, "labels": m.Metadata.Labels, "annotations": m.Metadata.Annotations, "name": m.Metadata.DisplayName})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	was := text()
	for _, c := range []struct {
		what         string
		change       func(object)
		gone, become string // in what is declared
	}{
		{"set-interval", func(o object) { o["interval"] = 30 }, `"interval":"1m"`, `"interval":"30s"`},
		{"set-command", func(o object) { o["command"] = "check_disk -w 5%" }, `10%`, `5%`},
		{"set-timeout", func(o object) { o["timeout"] = 7 }, `"interval":"30s"`, `"interval":"30s","timeout":"7s"`},
		{"a label", func(o object) { o["metadata"].(object)["labels"].(object)["tier"] = "1" }, `"labels":{"team":"db"}`, `"labels":{"team":"db","tier":"1"}`},
		{"a label less", func(o object) { delete(o["metadata"].(object)["labels"].(object), "team") }, `"team":"db",`, ``},
		{"remove-handlers", func(o object) { o["handlers"] = []any{} }, `,"handlers":["chat"]`, ``},
	} {
		w.change(201, path, c.change)
		if was = strings.Replace(was, c.gone, c.become, 1); !sameJSON(t, text(), was) {
			t.Fatalf("%s:\n%s\nwant\n%s", c.what, text(), was)
		}
	}
}

// A check whose targets are no subscriptions is shown without any, and runs.
func TestWhereNoSubscriptionIs(t *testing.T) {
	w := newWorld(t)
	w.Apply(ours)
	load := func() *model.CheckSpec { return w.declared("Check", "load").Spec.(*model.CheckSpec) }
	w.change(201, core+"/checks/load", func(o object) { o["interval"] = 30 })
	if c := load(); c.Disabled || c.Targets.Where == "" || len(c.Targets.Groups) > 0 {
		t.Errorf("with another interval it is %+v", c)
	}
	w.change(201, core+"/checks/load", func(o object) { o["publish"] = false })
	if c := load(); !c.Disabled || c.Targets.Where == "" {
		t.Errorf("not published it is %+v", c)
	}
	w.change(201, core+"/checks/load", func(o object) { o["publish"] = true })
	if c := load(); c.Disabled || c.Targets.Where == "" {
		t.Errorf("published again it is %+v", c)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
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

// What sensuctl is shown in part cannot be changed by it: the answer says by what.
func TestWhatIsShownInPartIsNotChanged(t *testing.T) {
	w := newWorld(t)
	w.Apply(ours)
	before := w.revisions()
	for what, said := range map[string]string{
		w.change(501, core+"/checks/disk", func(o object) { o["subscriptions"] = []any{"linux", "windows"} }):                         "targets only; type muster edit check disk",
		w.change(501, core+"/checks/disk", func(o object) { o["check_hooks"] = []any{} }):                                             "hooks only; type muster edit check disk",
		w.change(422, core+"/checks/ping", func(o object) { o["command"] = "ping" }):                                                  "probe",
		w.want(501, "PUT", core+"/handlers/chat", `{"metadata":{"name":"chat","namespace":"default"},"type":"pipe","command":"cat"}`): "words for; type muster edit handler chat",
	} {
		if !strings.Contains(what, said) {
			t.Errorf("it says %s, want %s", what, said)
		}
	}
	if after := w.revisions(); after != before {
		t.Errorf("it is another:\n%s\nwas\n%s", after, before)
	}
}
