package sensuctl

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
	"github.com/muster-fleet/muster/internal/testenv"
)

// listRevisions returns all declared resources with their revisions as text, for comparisons. Each has its key,
// revision and content.
func (w *testServer) listRevisions() string {
	w.t.Helper()
	out := ""
	for _, kind := range kind.All().Kinds() {
		rows := testenv.Value(w.Intent.Store().List(w.t.Context(), intent.ListQuery{Kind: kind.Name}))(w.t)
		for _, row := range rows {
			out += fmt.Sprintln(row.Key, row.Revision, string(row.Body))
		}
	}
	return out
}

// dumpResources reads the lists of resources that sensuctl dump reads, and returns each object with its path.
// It returns each object with its path for sensuctl create.
func (w *testServer) dumpResources(kinds ...string) (paths []string, docs []object) {
	w.t.Helper()
	for _, kind := range kinds {
		path := core + "/" + kind
		switch {
		case kind == "namespaces" || kind == "users":
			path = "/api/core/v2/" + kind
		case sensuTypes[kind].group == core3:
			path = strings.Replace(core, "v2", "v3", 1) + "/" + kind
		}
		var list []object
		testenv.NoError(w.t, json.Unmarshal([]byte(w.expectStatus(200, "GET", path, "")), &list))
		for _, o := range list {
			for field := range o {
				if _, wrapped := o["spec"]; !wrapped && !slices.Contains(strings.Fields(commonFields+" metadata "+sensuTypes[kind].fields), field) {
					w.t.Errorf("%s: selectors do not know the field %s", kind, field)
				}
			}
			meta, _ := o["metadata"].(object)
			name, _ := o["name"].(string)
			if meta != nil {
				name, _ = meta["name"].(string)
			}
			if kind == "users" {
				name = o["username"].(string)
			}
			if kind == "events" {
				name = o["entity"].(object)["metadata"].(object)["name"].(string) + "/" + o["check"].(object)["metadata"].(object)["name"].(string)
			}
			if labels, ok := meta["labels"].(object); ok { // as sensuctl create sends it
				labels[managedByLabel] = "sensuctl"
			} else if meta != nil {
				meta["labels"] = object{managedByLabel: "sensuctl"}
			}
			paths, docs = append(paths, path+"/"+strings.ReplaceAll(name, "*", "%2A")), append(docs, o)
		}
	}
	return paths, docs
}

// dumpedTypes lists the types that sensuctl dump all requests and that Muster has.
var dumpedTypes = []string{"namespaces", "users", "assets", "checks", "entities", "events", "filters", "handlers", "hooks", "mutators", "pipelines", "silenced", "entity-configs", "entity-states"}

// inexpressibleYAML declares resources with fields that have no equivalent in Sensu.
const inexpressibleYAML = `---
apiVersion: muster/v1
kind: Handler
metadata: {name: chat, namespace: default}
spec: {slack: {url: "https://hooks.slack.com/services/T0/B0/XX"}}
---
apiVersion: muster/v1
kind: Node
metadata: {name: sw2, namespace: default}
spec: {proxy: true, dependsOn: {node: sw1}, properties: {speed: 10}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: web, namespace: default}
spec:
  targets: {where: 'node.labels["role"] == "web"'}
  probe: {name: http, args: {url: "https://example.com/"}}
  interval: 1m
  schedule: {except: [{during: "22:00-06:00 Europe/Paris"}]}
  alert: {failAfter: 3, handlers: [chat]}
---
apiVersion: muster/v1
kind: Silence
metadata: {name: much, namespace: default}
spec: {checks: [web, ping], reason: move, until: 2036-12-24T18:00:00Z}
`

// TestDumpAppliesWithoutChange sends a dump back unchanged, and expects no changed resource and no lost field. Some of
// the fields are unknown to Sensu. A changed field is applied.
func TestDumpAppliesWithoutChange(t *testing.T) {
	w := newTestServer(t)
	text := testenv.Value(os.ReadFile("testdata/imported.yaml"))(t)
	w.Apply(string(text) + inexpressibleYAML)
	w.JoinNode("web01", map[string]string{"os": "linux", "hostname": "web01.example"})
	w.RecordResult("default", "web01", "check_cpu", model.Critical, "busy")
	before := w.listRevisions()
	paths, docs := w.dumpResources(dumpedTypes...)
	for i, o := range docs {
		data := testenv.Value(json.Marshal(o))(t)
		w.expectStatus(200, "PUT", paths[i], string(data))
	}
	if after := w.listRevisions(); after != before {
		t.Errorf("a dump that was sent back changed resources:\n%s\nwant\n%s", after, before)
	}
	if i := slices.Index(paths, "/api/core/v2/users/admin"); i < 0 || !slices.Equal(docs[i]["groups"].([]any), []any{"cluster-admins"}) || len(docs[i]) != 3 {
		t.Errorf("the administrator: %v", docs)
	}
	at := slices.Index(paths, core+"/checks/ping")
	docs[at]["interval"] = 77
	data := testenv.Value(json.Marshal(docs[at]))(t)
	delete(docs[at], "cron")
	w.expectStatus(201, "PUT", paths[at], string(data))
	w.expectStatus(501, "PUT", core+"/events/web01/check_cpu", `{"check":{"status":0,"output":"fine"}}`)
	w.expectStatus(501, "PUT", core+"/events/web01/nothing", `{"check":{"status":0,"output":"fine","executed":1}}`)
}

// TestDumpImportsUnchanged imports a dump into an empty server, and expects the dumped resources.
func TestDumpImportsUnchanged(t *testing.T) {
	w := newTestServer(t)
	text := testenv.Value(os.ReadFile("testdata/imported.yaml"))(t)
	w.Apply(string(text))
	var files []conversion.File
	for kind, of := range sensuTypes {
		if of.kind == "" || of.group == core3 {
			continue
		}
		_, docs := w.dumpResources(kind)
		for _, o := range docs {
			meta := o["metadata"]
			if meta == nil {
				meta = object{"name": o["name"]}
			}
			delete(o, "metadata")
			data := testenv.Value(json.Marshal(object{"type": of.sensu, "api_version": "core/v2", "metadata": meta, "spec": o}))(t)
			files = append(files, conversion.File{Name: kind, Data: data})
		}
	}
	got := testenv.Value(sensuimport.Import(files, kind.All(), w.Now()))(t)
	for _, n := range got.Notes {
		if n.NotImported {
			t.Errorf("%s: %s", n.Subject, n.Text)
		}
	}
	for _, m := range got.Resources {
		if m.Kind == "Group" || m.Kind == "Namespace" {
			continue
		}
		was, err := w.Intent.Get(t.Context(), resourceKeyOf(m.Kind, m.Metadata.Name))
		if err != nil {
			t.Errorf("%s %s: %v", m.Kind, m.Metadata.Name, err)
			continue
		}
		if silence, ok := was.Spec.(*model.SilenceSpec); ok {
			silence.Creator = "" // who imports it
		}
		a, _ := json.Marshal(m.Spec)
		b, _ := json.Marshal(was.Spec)
		if string(a) != string(b) {
			t.Errorf("%s %s:\n%s\nwas\n%s", m.Kind, m.Metadata.Name, a, b)
		}
	}
}

// TestAssetConversionKeepsBuilds converts assets to Sensu's format and back, and expects equal builds in the same
// order.
func TestAssetConversionKeepsBuilds(t *testing.T) {
	a, b := strings.Repeat("a", 128), strings.Repeat("b", 128)
	url := "https://example.com/x.tar.gz"
	for _, builds := range [][]model.AssetBuild{
		{{SHA512: a, URL: url}},
		{{SHA512: a, URL: url, OS: "linux", Arch: "amd64", Distribution: "debian", DistributionVersion: "12"}},
		{{SHA512: a, URL: url, DistributionVersion: ">=8,<10"}, {SHA512: a, URL: url, DistributionVersion: ">=10"}, {SHA512: a, URL: url, DistributionVersion: "<8"}},
		{{SHA512: a, OS: "linux"}, {SHA512: b, URL: url, OS: "linux", Arch: "arm64"}, {SHA512: b, URL: url}},
		{{SHA512: a, URL: url, OS: "linux", Arch: "armv7"}, {SHA512: b, URL: url, OS: "linux", Arch: "arm"}},
		{{SHA512: a, URL: url, Distribution: "redhat", DistributionVersion: "9.4"}, {SHA512: a, URL: url, Distribution: "rhel", DistributionVersion: "9.4"}},
	} {
		spec := &model.AssetSpec{Builds: builds}
		shown, _ := resourceForm(assetForm)(nil, &model.Resource{Kind: "Asset", Metadata: model.Metadata{Name: "x", Namespace: "default"}, Spec: spec})
		data := testenv.Value(json.Marshal(object{"type": "Asset", "api_version": "core/v2", "spec": shown}))(t)
		got, err := sensuimport.Import([]conversion.File{{Name: "f", Data: data}}, kind.All(), time.Unix(0, 0))
		if err != nil || len(got.Resources) != 1 || !reflect.DeepEqual(got.Resources[0].Spec, spec) || got.LostCount() > 0 {
			t.Errorf("%s: %+v %v", data, got, err)
		}
	}
}

// resourceKeyOf returns the key of a resource in the namespace default.
func resourceKeyOf(kind, name string) intent.Key {
	return intent.Key{Kind: kind, Namespace: "default", Name: name}
}

// TestSelectorsMatchFieldsAndLabels selects events by fields and labels (sensuctl's selectors), and expects exactly
// the matching events. Unknown fields and faulty syntax must be refused.
func TestSelectorsMatchFieldsAndLabels(t *testing.T) {
	event := object{
		"entity": object{"metadata": object{"name": "web01", "namespace": "default", "labels": map[string]string{"region": "eu"}}, "subscriptions": []string{"linux", "web", "web01.example.org"}},
		"check":  object{"metadata": object{"name": "disk"}, "status": 2, "is_silenced": true, "output": "disk full"},
	}
	for _, one := range []struct {
		fields, labels string
		want           bool
	}{
		{`event.entity.name == "web01"`, "", true},
		{`event.entity.name == web01`, "", true},
		{`event.entity.name != "web01"`, "", false},
		{`event.check.status == 2 && event.check.name in [disk, "load"]`, "", true},
		{`event.check.status == "2" && event.check.name notin [disk]`, "", false},
		{`linux in event.entity.subscriptions`, "", true},
		{`"db" in event.entity.subscriptions`, "", false},
		{`"db" notin event.entity.subscriptions`, "", true},
		{`event.is_silenced == true`, "", true},
		{`event.check.output matches "full"`, "", true},
		{`event.check.output matches 'empty'`, "", false},
		{`event.entity.labels.region == eu`, "", true},
		{`event.labels.region == eu && event.labels.rack != a`, "", true},
		{`web01.example.org in event.entity.subscriptions`, "", true},
		{`entity:db.example.org notin event.entity.subscriptions`, "", true},
		{`event.entity.labels.rack == "a"`, "", false},
		{"", `region == eu`, true},
		{"", `region in [us, "ap"]`, false},
		{"", `rack == a`, false},
		{`event.check.name=="disk"`, `region!=us`, true},
	} {
		query := url.Values{}
		if one.fields != "" {
			query.Set("fieldSelector", one.fields)
		}
		if one.labels != "" {
			query.Set("labelSelector", one.labels)
		}
		chosen, err := parseSelectors(query, "events")
		if err != nil {
			t.Errorf("%v: %v", one, err)
		} else if got := chosen.matches("events", event); got != one.want {
			t.Errorf("%v: %v", one, got)
		}
	}
	for kind, texts := range map[string][]string{
		"events":   {`event.no.such == "x"`, `check.name == disk`, `name == disk`, `event.check.nosuch != 1`, `event.entity.check == 1`, `web in event.entity.subs`, `web in subscriptions`},
		"checks":   {`entity.name == web`, `check.nosuch == x`, `check.status == 2`, `check. == x`, `check == x`},
		"entities": {`entity.command == x`, `event.entity.name == web`},
	} {
		for _, text := range texts {
			if _, err := parseSelectors(url.Values{"fieldSelector": {text}}, kind); err == nil || !strings.Contains(err.Error(), "this list has no field") || !strings.Contains(err.Error(), sensuTypes[kind].word+".") {
				t.Errorf("%s: %s: %v", kind, text, err)
			}
		}
	}
	for _, wrong := range []string{`x`, `x ==`, `x == y z`, `x = y`, `x in [a`, `"x`, `x == y &&`, `&& x == y`} {
		if got, err := parseSelector(wrong); err == nil {
			t.Errorf("%s: %v", wrong, got)
		}
	}
}

// TestImportsApplyToEmptyServer applies all resources of a Sensu import to an empty server, and expects
// success. The plan changes nothing.
func TestImportsApplyToEmptyServer(t *testing.T) {
	for _, name := range slices.Concat(testenv.Value(filepath.Glob("../sensuimport/testdata/*.yaml"))(t), testenv.Value(filepath.Glob("../sensuimport/testdata/samples/*.yaml"))(t)) {
		w := newTestServer(t)
		data := testenv.Value(os.ReadFile(name))(t)
		got := testenv.Value(sensuimport.Import([]conversion.File{{Name: name, Data: data}}, kind.All(), w.Now()))(t)
		var text strings.Builder
		plan := v1.ApplyRequest{ChangeOptions: v1.ChangeOptions{DryRun: true, Yes: true}}
		for _, r := range got.Resources {
			data := testenv.Value(json.Marshal(r))(t)
			plan.Resources = append(plan.Resources, data)
			fmt.Fprintf(&text, "---\n%s\n", data)
		}
		before := w.listRevisions()
		if _, err := client.InProcess(w.Handler, "", w.token).Resources.Apply(t.Context(), plan); err != nil {
			t.Errorf("plan of %s: %v", name, err)
		}
		if after := w.listRevisions(); after != before {
			t.Errorf("the plan of %s changed resources:\n%s", name, after)
		}
		w.Apply(text.String())
	}
}
