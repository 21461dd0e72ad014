package filter

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// recordedEvents returns events that a real sensu-backend sent to a handler, keyed by the name of their check.
func recordedEvents(t *testing.T) map[string]map[string]any {
	t.Helper()
	f := testenv.Value(os.Open("testdata/sensu-events.jsonl"))(t)
	defer f.Close()
	events := map[string]map[string]any{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e map[string]any
		testenv.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		name, _ := valueAtPath(e, "check", "metadata", "name").(string)
		events[name] = e
	}
	return events
}

// valueAtPath returns the value under a path of field names in nested JSON objects. It returns nil if an object
// on the path is missing.
func valueAtPath(v any, names ...string) any {
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// reportedEntityOf returns the entity of a recorded Sensu event, in the form stored for a node. The server
// stores the fields of the agent's report.
func reportedEntityOf(t *testing.T, event map[string]any) []byte {
	t.Helper()
	entity := map[string]any{}
	for name, value := range event["entity"].(map[string]any) {
		if name != "metadata" && name != "last_seen" {
			entity[name] = value
		}
	}
	entity["labels"], entity["annotations"] = valueAtPath(event, "entity", "metadata", "labels"), valueAtPath(event, "entity", "metadata", "annotations")
	return testenv.Value(json.Marshal(entity))(t)
}

// TestSensuEventsEqualThoseOfSensuBackend compares Sensu events made by Muster with recorded events of a real sensu-backend
// 6.9.2. The keys that differ on purpose stand in docs/parity/sensu.md.
func TestSensuEventsEqualThoseOfSensuBackend(t *testing.T) {
	recorded := recordedEvents(t)
	at := func(e map[string]any) time.Time { return time.Unix(int64(valueAtPath(e, "timestamp").(float64)), 0) }
	thirty := 30.0
	full, small, proxy, registration := recorded["full"], recorded["small"], recorded["prox"], recorded["registration"]
	delete(registration, "id") // it has none in Sensu
	for name, subject := range map[string]*ConversionInput{
		"full": {
			Event: &model.Event{
				Namespace: "default", Node: "web_01", Check: "full", Status: model.Unknown, Output: "DISK OK | used=41;80;90\n", State: "failing", Executed: at(full), Received: at(full),
				Duration: model.Duration(valueAtPath(full, "check", "duration").(float64) * 1e9), History: []model.Status{3}, Occurrences: 1, Watermark: 1,
				Hooks:  []model.HookResult{{Name: "look", Status: model.Unknown, Output: "hooked", ExitCode: 7, Duration: model.Duration(5240640)}},
				Values: []model.Value{{Name: "used", Value: 41, Tags: map[string]string{"t": "v"}}},
			},
			Check: Check{
				CheckDefinition: &model.CheckDefinition{
					Command: &model.Command{Shell: "echo 'DISK OK | used=41;80;90'; exit 127"}, Interval: 3 * time.Second, Timeout: 2 * time.Second, TTL: time.Minute,
					FlapStart: 60, FlapEnd: 20, Env: map[string]string{"A": "b"}, MaxOutput: 1000, Pipelines: []string{"sensu-rec", "sensu-jsout", "pipe", "sensu-rec-metrics"},
					Metrics:    &model.Metrics{Format: "nagios", Tags: map[string]string{"t": "v"}},
					Thresholds: []model.Threshold{{Metric: "used", Warning: &model.Bounds{Max: &thirty}}},
					Hooks:      []model.Hook{{Name: "look", When: []string{"non-ok"}, Command: &model.Command{Shell: "echo hooked; exit 7"}, Timeout: model.Duration(5 * time.Second)}},
				},
				Labels:      map[string]string{"l": "1", "my_secret": "hush", "sensu.io/managed_by": "sensuctl"},
				Annotations: map[string]string{"sensu.io/plugins/x/config/y": "z"}, Groups: []string{"web"},
			},
			Runs: []Run{{uint32(at(full).Unix()), 127}}, Sequence: 1,
		},
		"small": {
			Event: &model.Event{
				Namespace: "default", Node: "web_01", Check: "small", Status: model.Unknown, Output: "line1\nline2\n", State: "failing", Executed: at(small), Received: at(small),
				Duration: model.Duration(valueAtPath(small, "check", "duration").(float64) * 1e9), History: []model.Status{3}, Occurrences: 1, Watermark: 1,
			},
			Check: Check{CheckDefinition: &model.CheckDefinition{
				Command: &model.Command{Shell: "cat /dev/null; printf 'line1\nline2\n'; exit 255"}, Interval: 3 * time.Second, Pipelines: []string{"sensu-rec"}, MaxOutput: model.DefaultOutputBytes,
			}, Labels: map[string]string{"sensu.io/managed_by": "sensuctl"}, Groups: []string{"web"}},
			Runs: []Run{{uint32(at(small).Unix()), 255}}, Sequence: 1,
		},
		"prox": {
			Event: &model.Event{
				Namespace: "default", Node: "sw1", Check: "prox", Output: "Web_01\n", State: "passing", Executed: at(proxy), Received: at(proxy), LastOK: at(proxy),
				Duration: model.Duration(valueAtPath(proxy, "check", "duration").(float64) * 1e9), History: []model.Status{0}, Occurrences: 1, Watermark: 1,
			},
			Check: Check{CheckDefinition: &model.CheckDefinition{
				Command: &model.Command{Shell: "echo {{ .name }}"}, Cron: "* * * * *", TimeZone: "UTC", Pipelines: []string{"sensu-rec"},
				Proxy: true, OwnEntity: true, MaxOutput: model.DefaultOutputBytes,
			}, Labels: map[string]string{"sensu.io/managed_by": "sensuctl"}, Groups: []string{"web"}},
			Entity: Entity{Proxy: true}, Sequence: 1,
		},
		"registration": {
			Event:     &model.Event{Namespace: "default", Node: "web_01", Check: "registration", Status: model.Warning, State: "failing", Executed: at(registration), Received: at(registration), Occurrences: 1},
			Lifecycle: true, Check: Check{CheckDefinition: &model.CheckDefinition{Interval: time.Second, Pipelines: []string{"sensu-registration"}, MaxOutput: model.DefaultOutputBytes}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := recorded[name]
			if subject.ID, _ = want["id"].(string); !subject.Lifecycle {
				subject.ProcessedBy = "Web_01"
			}
			if !subject.Entity.Proxy {
				subject.Entity = Entity{Reported: reportedEntityOf(t, want), Name: "Web_01", Groups: []string{"linux", "web", "all"}}
			}
			var got map[string]any
			testenv.NoError(t, json.Unmarshal(testenv.Value(json.Marshal(SensuEvent(subject)))(t), &got))
			if subject.ID == "" {
				delete(got, "id")
			}
			for _, difference := range compareJSON(nil, "event", got, want) {
				t.Error(difference)
			}
		})
	}
}

// TestTokensInCheckMetadataExpand expects values of the Sensu entity in place of tokens in a check's labels and
// annotations. A token without a value stays.
func TestTokensInCheckMetadataExpand(t *testing.T) {
	labels := map[string]string{"site": "{{ .name }}/{{ .labels.site | default \"none\" }}"}
	annotations := map[string]string{"channel": "#{{ .labels.team }}", "os": "{{ .system.os }}", "secret": "{{ .labels.password }}", "unset": "{{ .labels.unset }}", "broken": "{{ .", "plain": "x"}
	for name, c := range map[string]struct {
		definition model.CheckDefinition
		want       string
	}{
		"of the agent":        {model.CheckDefinition{Sensu: true}, `{"site":"web1/none"} {"broken":"{{ .","channel":"#db","os":"linux","plain":"x","secret":"{{ .labels.password }}","unset":"{{ .labels.unset }}"}`},
		"of a proxy entity":   {model.CheckDefinition{Sensu: true, Proxy: true}, `{"site":"web1/none"} {"broken":"{{ .","channel":"#db","os":"linux","plain":"x","secret":"{{ .labels.password }}","unset":"{{ .labels.unset }}"}`},
		"proxy_entity_name":   {model.CheckDefinition{Sensu: true, Proxy: true, OwnEntity: true}, `{"site":"Runner/b"} {"broken":"{{ .","channel":"#net","os":"aix","plain":"x","secret":"{{ .labels.password }}","unset":"{{ .labels.unset }}"}`},
		"a check of Muster's": {model.CheckDefinition{}, `{"site":"{{ .name }}/{{ .labels.site | default \"none\" }}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &ConversionInput{Event: &model.Event{Namespace: "default", Node: "web1", Check: "c"}, Check: Check{CheckDefinition: &c.definition, Labels: labels, Annotations: annotations},
				Entity:      Entity{Reported: []byte(`{"labels":{"team":"db","password":"x"},"system":{"os":"linux"}}`)},
				ProcessedBy: "Runner", Runner: []byte(`{"labels":{"team":"net","site":"b","password":"REDACTED"},"system":{"os":"aix"}}`)}
			metadata := SensuEvent(s)["check"].(map[string]any)["metadata"].(map[string]any)
			var got strings.Builder
			encoder := json.NewEncoder(&got)
			encoder.SetEscapeHTML(false)
			testenv.NoError(t, encoder.Encode(metadata["labels"]))
			testenv.NoError(t, encoder.Encode(metadata["annotations"]))
			if text := strings.ReplaceAll(got.String(), "\n", " "); !strings.HasPrefix(text, c.want) {
				t.Errorf("%s\nwant %s", text, c.want)
			}
		})
	}
}

// differing lists the keys of Sensu's events that differ on purpose. docs/parity/sensu.md gives the reasons.
var differing = []string{
	"event.check.hooks.0.metadata.created_by", "event.check.hooks.0.metadata.labels",
}

// compareJSON adds to a list the paths of all fields at which two JSON values differ.
func compareJSON(list []string, path string, got, want any) []string {
	if slices.Contains(differing, path) {
		return list
	}
	a, isMap := got.(map[string]any)
	b, isMap2 := want.(map[string]any)
	if isMap && isMap2 {
		names := map[string]bool{}
		for name := range a {
			names[name] = true
		}
		for name := range b {
			names[name] = true
		}
		for name := range names {
			x, inA := a[name]
			y, inB := b[name]
			if inA != inB && !slices.Contains(differing, path+"."+name) {
				list = append(list, path+"."+name+": only in one of both: got "+jsonText(x)+", want "+jsonText(y))
				continue
			}
			list = compareJSON(list, path+"."+name, x, y)
		}
		return list
	}
	c, isList := got.([]any)
	d, isList2 := want.([]any)
	if isList && isList2 && len(c) == len(d) {
		for i := range c {
			list = compareJSON(list, path+"."+string(rune('0'+i)), c[i], d[i])
		}
		return list
	}
	if jsonText(got) != jsonText(want) {
		list = append(list, path+": got "+jsonText(got)+", want "+jsonText(want))
	}
	return list
}

// jsonText returns a value as JSON.
func jsonText(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
