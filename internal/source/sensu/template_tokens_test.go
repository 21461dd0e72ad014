package sensu

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestRequestsKeepTokensOfSensu requests an imported Sensu check, and expects a request with unexpanded tokens,
// metrics and thresholds. The server takes the agent's status.
func TestRequestsKeepTokensOfSensu(t *testing.T) {
	w := newTestServer(t, nil)
	w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x {{ .labels.x }}", func(c *model.CheckDefinition) {
		c.Interval, c.Timeout, c.Sensu = time.Hour, 0, true
		c.Env = map[string]string{"A": "{{ .annotations.a }}"}
		c.Hooks = []model.Hook{{Name: "who", When: []string{"critical"}, Command: &model.Command{Shell: "echo {{ .name }}"}}}
		c.Metrics = &model.Metrics{Format: "nagios", Tags: map[string]string{"host": "{{ .name }}"}}
		c.Thresholds = []model.Threshold{{Metric: "used", Missing: "warning", Critical: &model.Bounds{MaxToken: "{{ .labels.most }}"}}}
	})}
	a := w.connectAgent("web", true)
	r := a.nextRequest()
	for _, want := range []string{
		`"command":"x {{ .labels.x }}"`, `"env_vars":["A={{ .annotations.a }}"]`, `"output_metric_format":"nagios_perfdata"`, `"output_metric_tags":[{"name":"host","value":"{{ .name }}"}]`,
		`"output_metric_thresholds":[{"name":"used","thresholds":[{"max":"{{ .labels.most }}","status":2}],"null_status":1}]`,
	} {
		if !strings.Contains(string(r.Check), want) {
			t.Errorf("no %s in %s", want, r.Check)
		}
	}
	if strings.Contains(string(r.Check), "timeout") {
		t.Errorf("a time-out in %s", r.Check)
	}
	a.sendAnswer(r, func(e *sensuwire.Event) {
		e.Output, e.Points = "fine | used=95", []sensuwire.Point{{Name: "used", Value: 95, Tags: map[string]string{"host": "web"}}}
	})
	s, extra := w.waitSignal(2)
	if s.Status != model.OK || len(extra.Values) != 1 || extra.Values[0].Tags["host"] != "web" {
		t.Errorf("%s %q %+v", s.Status, s.Output, extra.Values)
	}
}

// TestNamedProxyEntityKeepsTokensOfAgent requests checks about proxy entities, and expects the server to leave the
// agent's own tokens unchanged. Tokens for a named proxy entity stay, because Sensu expands them over the agent's
// entity. Tokens for a selected proxy entity are expanded over its own.
func TestNamedProxyEntityKeepsTokensOfAgent(t *testing.T) {
	w := newTestServer(t, nil)
	w.connectAgent("web", true)
	site := &runTarget{ProxyNode: directory.ProxyNode{ID: 7}, name: "site", properties: []wire.Property{{Name: model.EntityProperty, Value: []byte(`{"labels":{"x":"of site"}}`)}}}
	for named, want := range map[bool]string{true: "x {{ .labels.x }}", false: "x of site"} {
		c := newCheck(1, "disk", "x {{ .labels.x }}", func(c *model.CheckDefinition) { c.Sensu, c.Proxy, c.OwnEntity = true, true, named })
		made := w.session("web").prepareCheck(c, site)
		if made.request.Command != want || made.request.Proxy != "site" || made.problem != "" {
			t.Errorf("named %t: %q of %s, %q, want %q", named, made.request.Command, made.request.Proxy, made.problem, want)
		}
	}
}

// TestRedactedTokenIsRefused requests a check whose token reads a redacted label, and expects an UNKNOWN result. The
// result has the reason.
func TestRedactedTokenIsRefused(t *testing.T) {
	keys := redactedKeysOf(&sensuwire.Machine{Labels: map[string]string{"Password": model.RedactedValue, "plain": "y"}, Annotations: map[string]string{"api_key": model.RedactedValue}})
	if got := strings.Join(keys, " "); got != "annotations.api_key labels.Password" {
		t.Error(got)
	}
	w := newTestServer(t, nil)
	w.connectAgent("web", true)
	x := w.session("web")
	x.Mu.Lock()
	x.redacted = keys
	x.Mu.Unlock()
	for command, want := range map[string]string{
		"x {{ .labels.Password }}":              "token .labels.Password reads a value",
		`x {{ index .annotations "api_key" }}`:  "token .annotations.api_key reads a value",
		"x {{ .labels.plain | default \"y\" }}": "",
	} {
		c := newCheck(1, "disk", command, func(c *model.CheckDefinition) { c.Sensu = true })
		if got := x.prepareCheck(c, &runTarget{}).problem; !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", command, got)
		}
	}
}

// TestMetricTagsAreExpanded checks that node properties in the metric tags of a Muster check are expanded.
func TestMetricTagsAreExpanded(t *testing.T) {
	w := newTestServer(t, nil)
	w.connectAgent("web", true)
	c := newCheck(1, "disk", "x", func(c *model.CheckDefinition) {
		c.Metrics = &model.Metrics{Format: "nagios", Tags: map[string]string{"site": "{{ .props.site }}"}}
	})
	made := w.session("web").prepareCheck(c, &runTarget{properties: []wire.Property{{Name: "site", Value: []byte(`"paris"`)}}})
	if made.tags["site"] != "paris" || made.problem != "" {
		t.Errorf("%v, %q", made.tags, made.problem)
	}
}
