package sensuimport_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
	"github.com/muster-fleet/muster/internal/testenv"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestImportedDumpMatchesGolden compares resources and notes of imported dumps with golden files. The resources are
// valid.
func TestImportedDumpMatchesGolden(t *testing.T) {
	for _, name := range []string{"dump", "assets"} {
		t.Run(name, func(t *testing.T) { compareImport(t, name) })
	}
}

// compareImport imports a Sensu dump, and compares the resources and notes with a golden file.
func compareImport(t *testing.T, name string) {
	data := testenv.Value(os.ReadFile(filepath.Join("testdata", name+".yaml")))(t)
	result := testenv.Value(sensuimport.Import([]conversion.File{{Name: name + ".yaml", Data: data}}, kind.All(), noon))(t)
	var out bytes.Buffer
	for _, r := range result.Resources {
		body := testenv.Value(json.Marshal(r))(t)
		text := testenv.Value(document.YAML(body))(t)
		fmt.Fprintf(&out, "---\n%s", text)
	}
	if _, err := kind.All().Read("made.yaml", out.Bytes()); err != nil {
		t.Error(err)
	}
	for _, n := range result.Notes {
		fmt.Fprintf(&out, "# %s: %s: lost %t: %s\n", n.Where, n.Subject, n.NotImported, n.Text)
	}
	path := filepath.Join("testdata", name+".golden")
	testenv.Golden(t, path, out.Bytes())
}

// importText imports a Sensu dump, and returns the resources and notes as texts for comparison. After an error
// it returns no result and the error.
func importText(t *testing.T, text string) (*sensuimport.Result, string) {
	t.Helper()
	result, err := sensuimport.Import([]conversion.File{{Name: "f", Data: []byte(text)}}, kind.All(), noon)
	if err != nil {
		return nil, err.Error()
	}
	var notes []string
	for _, n := range result.Notes {
		notes = append(notes, n.Where+" "+n.Text)
	}
	return result, strings.Join(notes, "\n")
}

// checkJSON returns the JSON of a Sensu check with additional fields.
func checkJSON(spec string) string {
	return `{"type":"CheckConfig","api_version":"core/v2","metadata":{"name":"c","namespace":"default"},"spec":{"command":"true","interval":10,"timeout":5,"subscriptions":["s"]` + spec + `}}`
}

// TestFileFormsAreRead reads YAML files, JSON files and lists, and expects the right resources. Other files are
// refused.
func TestFileFormsAreRead(t *testing.T) {
	bare := `{"type":"CheckConfig","spec":{"metadata":{"name":"c"},"command":"true","interval":10,"timeout":5,"subscriptions":["s"]}}`
	for name, tt := range map[string]struct {
		text string
		read int
		want string // of what is said
	}{
		"one":                     {checkJSON(""), 1, ""},
		"wrapped-json":            {checkJSON("") + "\n" + `{"type":"Namespace","spec":{"name":"ops"}}`, 2, ""},
		"a list":                  {"[" + checkJSON("") + "]", 1, ""},
		"metadata in spec":        {bare, 1, ""},
		"documents":               {"---\ntype: Namespace\nspec: {name: ops}\n---\n---\ntype: TessenConfig\nspec: {opt_out: false}\n", 2, "f:6 left out: Muster sends no usage data"},
		"nothing":                 {"", 0, ""},
		"a list of the API":       {`[{"command":"true","metadata":{"name":"c"}}]`, 0, "f:1: no type: not a resource in the format of sensuctl dump\n"},
		"broken JSON":             {checkJSON("") + "\n{\"type\": ", 0, "f: in the document at line 2: unexpected EOF"},
		"broken YAML":             {"type: [", 0, "f: go-yaml"},
		"a text":                  {"hello", 0, "f:1: not a Sensu resource"},
		"an unknown type":         {"type: Sprocket\nspec: {a: 1}\n", 1, "f:1 unknown type"},
		"an unknown field":        {checkJSON(`,"color":"red","nothing":0`), 1, `f:1 not imported: spec.color: "red"`},
		"a field of a wrong type": {checkJSON(`,"timeout":"soon"`), 1, `f:1 not imported: spec.timeout: "soon"`},
		"what Muster refuses":     {checkJSON(`,"ttl":5`), 1, "f:1 Check default/c is left out: Muster refuses the resource: "},
	} {
		t.Run(name, func(t *testing.T) {
			result, said := importText(t, tt.text)
			if result == nil {
				result = &sensuimport.Result{}
			}
			if tt.want == "" && said != "" || !strings.Contains(said, strings.TrimSpace(tt.want)) || result.Read != tt.read {
				t.Errorf("%d read, %q", result.Read, said)
			}
		})
	}
}

// TestCheckFieldsAreImported imports a check once for each possible field, and compares the resulting Muster
// checks.
func TestCheckFieldsAreImported(t *testing.T) {
	for spec, want := range map[string]string{
		`,"cron":"@every 5m","interval":0`:                    `"interval":"5m"`,
		`,"cron":"@hourly","interval":0`:                      `"cron":"0 * * * *","timeZone":"UTC"`,
		`,"cron":"CRON_TZ=Asia/Tokyo 0 9 * * 1","interval":0`: `"cron":"0 9 * * 1","timeZone":"Asia/Tokyo"`,
		`,"publish":false`:                                    `"disabled":true`,
		`,"round_robin":true`:                                 `"roundRobin":true`,
		`,"proxy_entity_name":"sw1"`:                          `"proxy":{"nodes":["sw1"]}`,
		`,"proxy_entity_name":"{{ .name }}-db"`:               `proxy_entity_name {{ .name }}-db: a name has no tokens`,
		`,"output_metric_format":"nagios_perfdata","output_metric_thresholds":[{"name":"a"},{"name":"b","thresholds":[{"min":"1","status":2},{"max":"{{ .labels.m }}","status":2}]}]`: `"thresholds":[{"metric":"b","critical":{"min":1,"maxToken":"{{ .labels.m }}"}}]`,
		`,"subscriptions":["entity:web01"]`:                 `"targets":{"nodes":["web01"]}`,
		`,"command":"x {{ .labels.disk-warn }}"`:            `bad character U+002D '-'`,
		`,"command":"x {{.annotations.a | default \"b\"}}"`: `x {{.annotations.a | default \"b\"}}`,
		`,"max_output_size":4096`:                           `"maxOutput":"4KiB"`,
		`,"subdues":[{"begin":"2026-01-02T22:00:00+01:00","end":"2026-01-03T06:00:00+01:00","repeat":["fridays"]}]`: `"window":"subdue-c"`,
		`,"subdue":{"days":{"monday":[{"begin":"5:00 PM","end":"12:00 AM"}]}}`:                                      `"during":"mon 17:00-24:00 UTC"`,
		`,"subdue":{"days":{"monday":[{"begin":"5:00PM","end":"8:00AM"}]}}`:                                         `{"during":"mon 00:00-08:00 UTC"},{"during":"mon 17:00-24:00 UTC"}`,
		`,"subdue":{"days":{"all":[{"begin":"5:00PM","end":"8:00AM"}]}}`:                                            `[{"during":"17:00-08:00 UTC"}]`,
		`,"subdue":{"days":{"all":[{"begin":"5:00PM","end":"5:00PM"}]}}`:                                            `subdue: all 5:00PM to 5:00PM has no length`,
		`,"round_robin":true,"ttl":60`:                                                                              `ttl: left out, because Sensu ignores the TTL of a round-robin check`,
		`,"round_robin":true,"ttl":60,"proxy_entity_name":"sw1"`:                                                    `"ttl":"1m"`,
		`,"round_robin":true,"subscriptions":["a","b"]`:                                                             `round_robin: one run per interval for all subscriptions together`,
		`,"max_output_size":9000000`:                                                                                `"maxOutput":"1MiB"`,
	} {
		result, said := importText(t, checkJSON(spec))
		var found bool
		for _, r := range result.Resources {
			data := testenv.Value(json.Marshal(r))(t)
			found = found || r.Kind == "Check" && strings.Contains(string(data), want)
		}
		if !found && !strings.Contains(said, strings.ReplaceAll(want, `\"`, `"`)) {
			t.Errorf("%s: no %s\n%s", spec, want, said)
		}
	}
}

// TestLimitsLeaveOutNoCheck imports a check with values that Muster bounds, and expects the check with the nearest
// values.
func TestLimitsLeaveOutNoCheck(t *testing.T) {
	result, said := importText(t, `{"type":"Mutator","api_version":"core/v2","metadata":{"name":"m","namespace":"default"},"spec":{"type":"pipe","command":"cat","timeout":900}}
{"type":"Handler","api_version":"core/v2","metadata":{"name":"h","namespace":"default"},"spec":{"type":"pipe","command":"cat","timeout":3600,"mutator":"m"}}
{"type":"CheckConfig","api_version":"core/v2","metadata":{"name":"c","namespace":"default","labels":{"long":"`+strings.Repeat("x", 300)+`","two words":"x","good":"y"},"annotations":{"a:b":"x","a/b":"y"}},"spec":{"command":"true","interval":10,"timeout":5,"subscriptions":["s"],"handlers":["h"]}}`)
	data := testenv.Value(json.Marshal(result.Resources))(t)
	for _, want := range []string{`"name":"c","namespace":"default","labels":{"good":"y"},"annotations":{"a/b":"y"}`, `"pipelines":["sensu-h"]`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s\n%s", want, data, said)
		}
	}
	if strings.Count(string(data), `"timeout":"10m"`) != 2 || strings.Contains(said, "left out") || !strings.Contains(said, "label long: ") || !strings.Contains(said, `"two words"`) || !strings.Contains(said, `"a:b"`) {
		t.Errorf("%s\n%s", data, said)
	}
}

// TestUnpublishedCheckIsDisabledOrPassive imports checks with publish false, and expects disabled checks or checks
// with results from outside. A check with a command becomes disabled, and a check without becomes passive.
func TestUnpublishedCheckIsDisabledOrPassive(t *testing.T) {
	result, said := importText(t, checkJSON(`,"publish":false`))
	c := result.Resources[len(result.Resources)-1].Spec.(*model.CheckSpec)
	if !c.Disabled || c.Passive || !strings.Contains(said, "results by an agent's API or socket are refused") {
		t.Errorf("%+v\n%s", c, said)
	}
	for _, command := range []string{``, `"command":"",`} {
		result, said = importText(t, `{"type":"CheckConfig","api_version":"core/v2","metadata":{"name":"backup","namespace":"default"},"spec":{`+command+
			`"publish":false,"interval":60,"subscriptions":["linux"],"ttl":90000,"high_flap_threshold":60,"low_flap_threshold":30,"timeout":10}}`)
		if len(result.Resources) != 1 {
			t.Fatalf("%d resources\n%s", len(result.Resources), said)
		}
		c = result.Resources[0].Spec.(*model.CheckSpec)
		if !c.Passive || c.Disabled || c.Command != nil || c.Targets != nil || c.Interval != 0 || c.TTL != model.Duration(25*time.Hour) || c.Alert == nil || c.Alert.Flapping == nil {
			t.Errorf("%+v", c)
		}
		if !strings.Contains(said, "the check is passive") || !strings.Contains(said, "not imported: spec.timeout: 10") || strings.Contains(said, "spec.interval") {
			t.Error(said)
		}
	}
}

// TestEntityAttributesBecomeConditions translates usual entity attributes to conditions on nodes. A check with another
// expression becomes disabled.
func TestEntityAttributesBecomeConditions(t *testing.T) {
	for source, want := range map[string]string{
		`entity.entity_class == 'proxy'`:                                        `true`,
		`entity.entity_class == 'agent'`:                                        `false`,
		`entity.entity_class === "proxy" && entity.labels.site == "a"`:          `node.labels["site"] == "a"`,
		`entity.labels['site'] != 'lab' || !(entity.name == "x")`:               `node.labels["site"] != "lab" || !(node.name == "x")`,
		`(entity.labels.a == "1" || entity.labels.b == "2") && entity.labels.c`: `(node.labels["a"] == "1" || node.labels["b"] == "2") && node.labels["c"] != ""`,
		`entity.metadata.labels.a.startsWith("x")`:                              `node.labels["a"].startsWith("x")`,
		`entity.name.match(/^SW[0-9]+$/i)`:                                      `node.name.matches("(?i)^SW[0-9]+$")`,
		`entity.subscriptions.indexOf("net") >= 0`:                              `"net" in node.groups`,
		`entity.subscriptions.indexOf("net") > -1`:                              `"net" in node.groups`,
		`entity.subscriptions.includes("net")`:                                  `"net" in node.groups`,
		`"linux" == entity.system.os`:                                           `node.facts["os"] == "linux"`,
	} {
		if got := importCondition(t, source); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	for source, want := range map[string]string{
		`entity.last_seen < 5`:        "no condition on nodes with this meaning",
		`require("x")`:                "unknown function in the expression",
		`entity.labels.a == `:         "Unexpected end of input",
		`entity.deregister == "true"`: "a node has no entity.deregister",
		`while (true) {}`:             "is not one expression",
		`entity.name.repeat("9")`:     "repeat does not exist",
		`event.check.name == "x"`:     "a node has no event.check.name",
	} {
		result, said := importText(t, checkJSON(`,"proxy_requests":{"entity_attributes":[`+quoteJSON(source)+`]}`))
		if !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %s", source, said, want)
		}
		if c := result.Resources[len(result.Resources)-1].Spec.(*model.CheckSpec); !c.Disabled {
			t.Errorf("%s: runs for all proxy nodes", source)
		}
	}
}

// TestRedactedMetadataIsNotImported imports an entity that hides (redacts) a label and an annotation, and expects
// neither value. A note reports each of the two.
func TestRedactedMetadataIsNotImported(t *testing.T) {
	result, notes := importText(t, `{"type":"Entity","api_version":"core/v2","metadata":{"name":"switch1","namespace":"default",
		"labels":{"site":"ber","Password":"hunter2"},"annotations":{"token":"hunter2","note":"REDACTED"}},
		"spec":{"entity_class":"proxy","redact":["password","token","note"]}}`)
	text := testenv.Value(json.Marshal(result.Resources))(t)
	if bytes.Contains(text, []byte("hunter2")) || !bytes.Contains(text, []byte(`"Password":"REDACTED"`)) || !bytes.Contains(text, []byte(`"site":"ber"`)) {
		t.Errorf("resources: %s", text)
	}
	for _, want := range []string{"label Password: redact names it", "annotation token: redact names it"} {
		if strings.Count(notes, want) != 1 {
			t.Errorf("%q is not in: %s", want, notes)
		}
	}
	if strings.Contains(notes, "annotation note") {
		t.Errorf("a note about a value that was not in the file: %s", notes)
	}
}

// importCondition imports a proxy check with an entity expression, and returns the resulting Muster condition
// on nodes. If the expression cannot be translated, it returns the notes.
func importCondition(t *testing.T, source string) string {
	t.Helper()
	result, said := importText(t, checkJSON(`,"proxy_requests":{"entity_attributes":[`+quoteJSON(source)+`]}`))
	for _, r := range result.Resources {
		if c, ok := r.Spec.(*model.CheckSpec); ok && c.Proxy != nil {
			return c.Proxy.Where
		}
	}
	return said
}

// quoteJSON returns a text as a JSON string.
func quoteJSON(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

// TestCheckHandlersBecomeAlertsOrPipelines imports handlers, and expects notification handlers for known services and
// pipelines for other programs. A missing filter passes nothing.
func TestCheckHandlersBecomeAlertsOrPipelines(t *testing.T) {
	handler := func(name, spec string) string {
		return `{"type":"Handler","api_version":"core/v2","metadata":{"name":"` + name + `","namespace":"default"},"spec":{` + spec + `}}` + "\n"
	}
	pager := `"type":"pipe","command":"sensu-pagerduty-handler --token k"`
	for name, tt := range map[string]struct{ text, want string }{
		"our own":           {handler("h", pager+`,"filters":["is_incident","not_silenced"]`), `"alert":{"handlers":["h"]}`},
		"its own filter":    {handler("h", pager+`,"filters":["is_incident","mine"]`), `"pipelines":["sensu-h"]`},
		"no filter":         {handler("h", pager), `"pipelines":["sensu-h"]`},
		"a program":         {handler("h", `"type":"pipe","command":"cat","filters":["is_incident"]`), `"pipelines":["sensu-h"]`},
		"a set in a set":    {handler("h", `"type":"set","handlers":["i"]`) + handler("i", `"type":"set","handlers":["j"]`) + handler("j", `"type":"udp","socket":{"host":"h","port":1}`), `"pipelines":["sensu-j"]`},
		"a set without end": {handler("h", `"type":"set","handlers":["h"]`), "sets are nested too deeply"},
		"without a token":   {handler("h", `"type":"pipe","command":"sensu-pagerduty-handler"`), "the handler stays a command"},
		"with a template":   {handler("h", `"type":"pipe","command":"sensu-pagerduty-handler --token k --dedup-key-template {{.Check.Name}}"`), `"pipelines":["sensu-h"]`},
		"quoted":            {handler("h", `"type":"pipe","command":"sensu-pagerduty-handler --token k --status-map '{}'"`), `"pipelines":["sensu-h"]`},
		"a shell line":      {handler("h", `"type":"pipe","command":"sensu-pagerduty-handler --token $(cat k)"`), `"pipelines":["sensu-h"]`},
	} {
		t.Run(name, func(t *testing.T) {
			result, said := importText(t, tt.text+checkJSON(`,"handlers":["h"]`))
			data, err := json.Marshal(result.Resources)
			if err != nil || !strings.Contains(string(data)+said, tt.want) {
				t.Errorf("%s\n%s", data, said)
			}
		})
	}
	result, said := importText(t, handler("h", pager+`,"filters":["gone"]`)+checkJSON(`,"handlers":["h"]`))
	data, _ := json.Marshal(result.Resources)
	if !strings.Contains(said, "filter gone is not in these files: the workflow passes no event") || !strings.Contains(string(data), `{"action":"allow","expressions":["false"]}`) {
		t.Errorf("%s\n%s", data, said)
	}
}

// TestMetricHandlersGetEventsWithMetrics expects metric handlers to get each event with metrics exactly once.
func TestMetricHandlersGetEventsWithMetrics(t *testing.T) {
	handler := func(name, filters string) string {
		return `{"type":"Handler","api_version":"core/v2","metadata":{"name":"` + name + `","namespace":"default"},"spec":{"type":"tcp","socket":{"host":"h","port":1},"filters":[` + filters + `]}}` + "\n"
	}
	for name, tt := range map[string]struct{ filters, check, want string }{
		"of metrics alone": {"", `,"output_metric_handlers":["h"]`, `"pipelines":["sensu-h-metrics"]`},
		"with its filters": {`"mine"`, `,"output_metric_handlers":["h"]`, `"filters":["mine","has_metrics"]`},
		"one that asks":    {`"has_metrics"`, `,"output_metric_handlers":["h"]`, `"pipelines":["sensu-h"]`},
		"of both":          {"", `,"handlers":["h"],"output_metric_handlers":["h"]`, `"pipelines":["sensu-h"]`},
		"who is missing":   {"", `,"output_metric_handlers":["gone"]`, `handler gone is not in these files`},
	} {
		t.Run(name, func(t *testing.T) {
			result, said := importText(t, handler("h", tt.filters)+checkJSON(`,"output_metric_format":"graphite_plaintext"`+tt.check))
			data, err := json.Marshal(result.Resources)
			if err != nil || !strings.Contains(string(data)+said, tt.want) || name != "of both" && strings.Count(string(data), `"pipelines":[`) > 1 {
				t.Errorf("%s\n%s", data, said)
			}
		})
	}
}

// TestKeepaliveHandlersAreImported expects the keepalive of a node to be routed to the handlers of its entity.
func TestKeepaliveHandlersAreImported(t *testing.T) {
	handler := func(name, spec string) string {
		return `{"type":"Handler","api_version":"core/v2","metadata":{"name":"` + name + `","namespace":"default"},"spec":{` + spec + `}}` + "\n"
	}
	pager := handler("Page", `"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident","not_silenced"]`)
	program, usual := handler("cmdb", `"type":"pipe","command":"cat"`), handler("keepalive", `"type":"pipe","command":"cat"`)
	for name, tt := range map[string]struct{ text, class, names, want string }{
		"both ways":       {pager + program, "agent", `["Page","cmdb"]`, `"keepalive":{"handlers":["page"],"pipelines":["sensu-cmdb"]}`},
		"by the default":  {usual, "agent", `null`, `"keepalive":{"pipelines":["sensu-keepalive"]}`},
		"nobody":          {program, "agent", `["keepalive"]`, `"spec":{}`},
		"who is missing":  {"", "agent", `["gone"]`, `handler gone is not in these files`},
		"of a proxy node": {program, "proxy", `["cmdb"]`, `a proxy node has no keepalive`},
	} {
		t.Run(name, func(t *testing.T) {
			result, said := importText(t, tt.text+`{"type":"Entity","api_version":"core/v2","metadata":{"name":"web01","namespace":"default"},"spec":{"entity_class":"`+tt.class+`","keepalive_handlers":`+tt.names+`}}`)
			data, err := json.Marshal(result.Resources)
			if err != nil || !strings.Contains(string(data)+said, tt.want) {
				t.Errorf("%s\n%s", data, said)
			}
		})
	}
}

// TestUnreferencedHandlersHavePipelines expects a pipeline for each handler, even for handlers without a reference in
// the files. Agents may name such handlers.
func TestUnreferencedHandlersHavePipelines(t *testing.T) {
	handler := func(name, spec string) string {
		return `{"type":"Handler","api_version":"core/v2","metadata":{"name":"` + name + `","namespace":"default"},"spec":{` + spec + `}}` + "\n"
	}
	result, said := importText(t, handler("keepalive", `"type":"pipe","command":"cat","filters":["is_incident"]`)+handler("Log", `"type":"udp","socket":{"host":"127.0.0.1","port":514}`)+
		handler("page", `"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident"]`)+handler("all", `"type":"set","handlers":["keepalive","Log","keepalive"]`)+
		handler("pagew", `"type":"pipe","command":"sensu-pagerduty-handler --token k","filters":["is_incident","hourly"]`)+
		`{"type":"EventFilter","metadata":{"name":"hourly","namespace":"default"},"spec":{"action":"allow","expressions":["event.check.occurrences == 1"]}}`)
	data, err := json.Marshal(result.Resources)
	for _, want := range []string{`"name":"sensu-keepalive"`, `{"workflows":[{"name":"keepalive","filters":["is_incident"],"handler":"keepalive"}]}`, `"name":"sensu-log"`,
		`"metadata":{"name":"sensu-pagew","namespace":"default"},"spec":{"workflows":[{"name":"pagew","filters":["is_incident","hourly"],"handler":"pagew"}]}`,
		`"metadata":{"name":"sensu-all","namespace":"default","annotations":{"sensuctl/set-of":"keepalive, Log"}},"spec":{"workflows":[{"name":"keepalive","filters":["is_incident"],"handler":"keepalive"},{"name":"log","handler":"log"}]}`} {
		if err != nil || strings.Count(string(data), want) != 1 {
			t.Errorf("want %s once: %s\n%s", want, data, said)
		}
	}
	if strings.Contains(string(data), `"sensu-page"`) {
		t.Errorf("%s", data)
	}
}

// TestEndedSilencesAreLeftOut expects no import of silences that have ended.
func TestEndedSilencesAreLeftOut(t *testing.T) {
	silence := func(spec string) string {
		return `{"type":"Silenced","metadata":{"name":"s:c","namespace":"default"},"spec":{` + spec + `}}`
	}
	for spec, want := range map[string]string{
		`"subscription":"entity:web01","check":"*","expire":-1,"reason":"r","creator":"ann"`: `{"targets":{"nodes":["web01"]},"reason":"r (by ann)"}`,
		`"check":"c","expire":60`:                                              `{"checks":["c"],"until":"2026-11-22T12:01:00Z","reason":"silenced in Sensu"}`,
		`"check":"c","expire_at":` + fmt.Sprint(noon.Unix()):                   `the silence has ended`,
		`"check":"c","begin":` + fmt.Sprint(noon.Unix()+3600) + `,"expire":60`: `"begin":"2026-11-22T13:00:00Z","until":"2026-11-22T13:01:00Z"`,
		``:                                 `{"targets":{"groups":["s"]},"checks":["c"],"reason":"silenced in Sensu"}`,
		`"subscription":"web","check":"*"`: `{"targets":{"groups":["web"]},"where":"\"web\" in source.groups","reason":"silenced in Sensu"}`,
	} {
		result, said := importText(t, silence(spec))
		if data, _ := json.Marshal(result.Resources); !strings.Contains(string(data)+said, want) {
			t.Errorf("%s: %s\n%s", spec, data, said)
		}
	}
}

// TestRepeatedKeysAreReplaced imports YAML with a key twice, and expects the last value to count, as in sensuctl. A
// note has the line of the other keys.
func TestRepeatedKeysAreReplaced(t *testing.T) {
	result, said := importText(t, `type: CheckConfig
api_version: core/v2
metadata: {name: disk, name: disk-used}
spec:
  command: first
  interval: 60
  subscriptions: [web]
  command: last
  env_vars: [A=1]
  env_vars: [A=2]
`)
	data, err := json.Marshal(result.Resources)
	if text := string(data); err != nil || !strings.Contains(text, `"name":"disk-used"`) || !strings.Contains(text, `"command":"last"`) || !strings.Contains(text, `{"A":"2"}`) {
		t.Errorf("%s, %v", data, err)
	}
	for _, want := range []string{"line 3: name: the key is repeated", "line 5: command: the key is repeated", "line 9: env_vars: the key is repeated"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is missing in %s", want, said)
		}
	}
}

// FuzzImport imports random files, and expects an error or valid resources. A note reports each unread field.
func FuzzImport(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "dump.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	if data, err = os.ReadFile(filepath.Join("testdata", "assets.yaml")); err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(checkJSON(`,"proxy_requests":{"entity_attributes":["entity.labels.a == 'b' && (1 || 2)"]}`)))
	f.Add([]byte(checkJSON(`,"check_hooks":[{"type":"critical","hooks":["x"]}],"subdue":{"days":{"all":[{"begin":"1:00 PM","end":"25:00"}]}}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := sensuimport.Import([]conversion.File{{Name: "f", Data: data}}, kind.All(), noon)
		if err != nil {
			if model.ClassOf(err) == model.Internal {
				t.Errorf("an error without a class: %v", err)
			}
			return
		}
		for _, r := range result.Resources {
			if flaws := kind.All().Check(r).Err(); flaws != nil {
				t.Errorf("%s %s: %v", r.Kind, r.Metadata.Name, flaws)
			}
		}
	})
}

const withSecrets = `type: Env
api_version: secrets/v1
metadata: {name: env}
spec: {}
---
type: VaultProvider
api_version: secrets/v1
metadata: {name: vault}
spec: {client: {address: "https://vault.example.com:8200", token: s3cr3t, version: v2, max_retries: 2}}
---
type: Secret
api_version: secrets/v1
metadata: {name: db, namespace: default}
spec: {id: "secret/app/db#password", provider: vault}
---
type: Secret
api_version: secrets/v1
metadata: {name: token, namespace: default}
spec: {id: API_TOKEN, provider: env}
---
type: Secret
api_version: secrets/v1
metadata: {name: elsewhere, namespace: default}
spec: {id: x, provider: cyberark}
---
type: CheckConfig
api_version: core/v2
metadata: {name: sql, namespace: default}
spec:
  command: check_sql
  interval: 60
  subscriptions: [db]
  publish: true
  secrets: [{name: DB_PASSWORD, secret: db}, {name: TOKEN, secret: token}, {name: X, secret: elsewhere}]
---
type: Handler
api_version: core/v2
metadata: {name: page, namespace: default}
spec: {type: pipe, command: page, secrets: [{name: KEY, secret: token}, {name: Y, secret: elsewhere}]}
---
type: Mutator
api_version: core/v2
metadata: {name: add, namespace: default}
spec: {type: pipe, command: add, secrets: [{name: KEY, secret: db}, {name: Z, secret: elsewhere}]}
`

// TestSecretsAreImportedWithTheirProviders expects imported Secrets to contain the address and path of their
// Sensu secrets provider. A provider is Vault or the environment.
func TestSecretsAreImportedWithTheirProviders(t *testing.T) {
	result := testenv.Value(sensuimport.Import([]conversion.File{{Name: "dump.yaml", Data: []byte(withSecrets)}}, kind.All(), noon))(t)
	made := map[string]model.Spec{}
	for _, r := range result.Resources {
		made[r.Kind+"/"+r.Metadata.Name] = r.Spec
		if err := kind.All().Check(r).Err(); err != nil {
			t.Error(err)
		}
	}
	db, _ := made["Secret/db"].(*model.SecretSpec)
	if want := (model.Vault{Address: "https://vault.example.com:8200", Mount: "secret", Path: "app/db", Key: "password", Engine: "v2", TokenFile: "/etc/muster/vault-token"}); db == nil || db.Vault == nil || *db.Vault != want {
		t.Errorf("got %+v", db)
	}
	if token, _ := made["Secret/token"].(*model.SecretSpec); token == nil || token.Env != "API_TOKEN" {
		t.Errorf("got %+v", token)
	}
	if check, _ := made["Check/sql"].(*model.CheckSpec); check == nil || len(check.Secrets) != 2 || check.Secrets[0] != (model.CommandSecret{Env: "DB_PASSWORD", Secret: "db"}) {
		t.Errorf("got %+v", check)
	}
	if page, _ := made["Handler/page"].(*model.HandlerSpec); page == nil || len(page.Secrets) != 1 || page.Secrets[0] != (model.CommandSecret{Env: "KEY", Secret: "token"}) {
		t.Errorf("got %+v", page)
	}
	if add, _ := made["Mutator/add"].(*model.MutatorSpec); add == nil || len(add.Secrets) != 1 || add.Secrets[0] != (model.CommandSecret{Env: "KEY", Secret: "db"}) {
		t.Errorf("got %+v", add)
	}
	var notes strings.Builder
	for _, n := range result.Notes {
		notes.WriteString(n.Subject + ": " + n.Text + "\n")
	}
	for _, want := range []string{`provider "cyberark"`, "its token is not imported", "secret elsewhere as X", "secret elsewhere as Y", "secret elsewhere as Z", "trusted: true", "set API_TOKEN"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("the notes have no %q:\n%s", want, notes.String())
		}
	}
	if strings.Contains(notes.String(), "s3cr3t") {
		t.Error("the token of Vault is shown")
	}
}

// TestDependentsOfOmittedResourcesAreOmitted refuses one resource, and expects the import to omit all resources
// that refer to the refused resource.
func TestDependentsOfOmittedResourcesAreOmitted(t *testing.T) {
	result, said := importText(t, `{"type":"Handler","api_version":"core/v2","metadata":{"name":"bad","namespace":"shop"},"spec":{"type":"tcp","socket":{"host":"","port":0}}}
{"type":"Pipeline","api_version":"core/v2","metadata":{"name":"flow","namespace":"shop"},"spec":{"workflows":[{"name":"a","handler":{"name":"bad"}}]}}
{"type":"Filter","api_version":"core/v2","metadata":{"name":"x","namespace":"shop"}}
{"type":"CheckConfig","api_version":"core/v2","metadata":{"name":"c","namespace":"shop"},"spec":{"command":"true","interval":10,"timeout":5,"subscriptions":["s"],"pipelines":[{"name":"flow"}]}}`)
	made := map[string]bool{}
	for _, r := range result.Resources {
		made[r.Kind+" "+r.Metadata.Name] = true
	}
	for _, r := range result.Resources {
		for _, ref := range kind.All().References(r) {
			if ref.Required && !made[ref.Kind+" "+ref.Name] {
				t.Errorf("%s names %s %s, which is not made", r.Metadata.Name, ref.Kind, ref.Name)
			}
		}
	}
	for _, want := range []string{"f:1 Handler shop/bad is left out: Muster refuses the resource", "f:2 Pipeline shop/flow is left out: spec.workflows[0].handler names Handler bad, which is left out",
		"f:1 namespace shop is not in these files: the import adds the namespace"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if !made["Namespace shop"] || made["Pipeline flow"] {
		t.Errorf("%v", made)
	}
}
