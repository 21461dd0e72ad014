//go:build linux

package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Alerts from a real Prometheus become events. Two alerts of one name on one node are one event with the worse status.
// A declared node is found, an unknown node is created. After a restart of the server, a firing alert is still the
// same problem.
func TestPrometheusAlertsBecomeEvents(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "prometheus", "prometheus")
	var root, data atomic.Int64
	root.Store(50)
	data.Store(50)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "disk_free{mount=\"/\"} %d\ndisk_free{mount=\"/data\"} %d\n", root.Load(), data.Load())
	}))
	t.Cleanup(target.Close)

	s := harness.StartServer(t)
	s.Apply("kind: Node\nmetadata: {name: db1}\nspec: {proxy: true}\n")
	token := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "alerts", "-m", "alerts"))
	dir := t.TempDir()
	write := func(name, text string) string { return writeFileInFolder(t, dir, name, text) }
	ca := write("ca.crt", string(s.Authority().CAPEM()))
	rules := write("rules.yml", `groups:
- name: disks
  rules:
  - alert: DiskFull
    expr: disk_free < 10
    labels: {severity: warning}
    annotations: {summary: '{{ $labels.mount }} is nearly full', runbook_url: https://runbooks.example.org/disk}
  - alert: DiskFull
    expr: disk_free < 5
    labels: {severity: critical}
    annotations: {summary: '{{ $labels.mount }} is full'}
  - alert: NobodyThere
    expr: absent(nothing)
`)
	config := write("prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
- job_name: disks
  static_configs: [{targets: [%q], labels: {node: db1.example.org}}]
alerting:
  alertmanagers:
  - scheme: https
    path_prefix: /alertmanager
    authorization: {credentials: %q}
    tls_config: {ca_file: %q}
    static_configs: [{targets: [%q]}]
`, rules, strings.TrimPrefix(target.URL, "http://"), token, ca, s.Listen))
	runPrometheus(t, program, config)
	api := s.Client()
	sees := func(node, check string, status model.Status, words ...string) string {
		t.Helper()
		problem := ""
		harness.Until(t, 60*time.Second, fmt.Sprintf("%s/%s is %s", node, check, status), func() (string, bool) {
			e, err := api.Events.Get(context.Background(), "default", node, check)
			if err != nil {
				return err.Error(), false
			}
			if e.Problem != nil {
				problem = e.Problem.ID
			}
			ok := e.Status == status && (e.Problem != nil) == (status != model.OK)
			for _, w := range words {
				ok = ok && strings.Contains(e.Output, w)
			}
			return fmt.Sprintf("%+v", e), ok
		})
		return problem
	}
	sees("alerts", "nobodythere", model.Warning, "NobodyThere")
	root.Store(7)
	first := sees("db1", "diskfull", model.Warning, "/ is nearly full", "runbook: https://runbooks.example.org/disk", "source: http")
	data.Store(2)
	second := sees("db1", "diskfull", model.Critical, "3 alerts fire", "CRITICAL: /data is full")
	assert(t, second == first, "another problem: %s, was %s", second, first)
	s.Try("why", "db1/diskfull").Expect(0, "passive")
	s.Try("get", "nodes").Expect(0, "alerts").ExpectNot("db1.example.org")
	data.Store(50)
	sees("db1", "diskfull", model.Warning, "/ is nearly full")
	root.Store(50)
	sees("db1", "diskfull", model.OK, "resolved: / is nearly full")
	root.Store(7)
	again := sees("db1", "diskfull", model.Warning)
	assert(t, again != first, "the problem that closed is open again")
	s.Stop()
	s.Start()
	api = s.Client()
	awaitEqual(t, "Prometheus repeats the alerts", 2, func() float64 { return s.Metric("muster_alerts_firing") })
	after := sees("db1", "diskfull", model.Warning, "/ is nearly full")
	assert(t, after == again, "another problem after a restart: %s, was %s", after, again)
}

// runPrometheus runs a real Prometheus until the test ends.
func runPrometheus(t *testing.T, program, config string) (address string) {
	t.Helper()
	address = harness.ReservePort(t)
	var said bytes.Buffer
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(filepath.Dir(config), "tsdb"), "--web.listen-address="+address, "--rules.alert.resend-delay=1s", "--log.level=warn")
	cmd.Stderr = &said
	testenv.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", said.String())
		}
	})
	return address
}

// TestSlowPrometheusClockIsReported sends alerts from a Prometheus with a wrong clock, and expects events about the
// clock. The clock is ten minutes late.
func TestSlowPrometheusClockIsReported(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "prometheus", "prometheus")
	var free atomic.Int64
	free.Store(7)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "disk_free %d\n", free.Load()) }))
	t.Cleanup(target.Close)
	s := harness.StartServer(t)
	token := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "alerts", "-m", "alerts"))
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var alerts []map[string]any
		if err := json.NewDecoder(r.Body).Decode(&alerts); err != nil {
			t.Error(err)
			return
		}
		for _, a := range alerts {
			for _, name := range []string{"startsAt", "endsAt"} {
				at, err := time.Parse(time.RFC3339, a[name].(string))
				assert(t, err == nil, "%v", err)
				a[name] = at.Add(-10 * time.Minute)
			}
		}
		text, err := json.Marshal(alerts)
		if err != nil {
			t.Error(err)
			return
		}
		code, said := postAlerts(t, s, r.URL.Path, "", token, string(text))
		w.WriteHeader(code)
		fmt.Fprint(w, said)
	}))
	t.Cleanup(late.Close)
	dir := t.TempDir()
	rules, config := filepath.Join(dir, "rules.yml"), filepath.Join(dir, "prometheus.yml")
	for path, text := range map[string]string{
		rules: "groups: [{name: disks, rules: [{alert: DiskFull, expr: disk_free < 10, labels: {severity: critical, node: db1}}]}]\n",
		config: fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: disks, static_configs: [{targets: [%q]}]}]
alerting: {alertmanagers: [{path_prefix: /alertmanager, static_configs: [{targets: [%q]}]}]}
`, rules, strings.TrimPrefix(target.URL, "http://"), strings.TrimPrefix(late.URL, "http://")),
	} {
		writeFile(t, path, text)
	}
	runPrometheus(t, program, config)
	api := s.Client()
	is := func(status model.Status, words string) {
		t.Helper()
		awaitEvent(t, api, "db1", "diskfull", fmt.Sprintf("db1/diskfull is %s", status), func(e v1.Event) bool { return e.Status == status && strings.Contains(e.Output, words) })
	}
	is(model.Critical, "at least 9m behind")
	free.Store(50)
	is(model.OK, "resolved: DiskFull")
	n := s.Metric("muster_alerts_behind_total")
	assert(t, n >= 1, "%v alerts were found out", n)
}

// postAlerts sends alerts in the JSON format of Grafana's contact point.
func postAlerts(t *testing.T, s *harness.Server, path, user, password, body string) (int, string) {
	t.Helper()
	r := testenv.Value(http.NewRequest(http.MethodPost, "https://"+s.Listen+path, strings.NewReader(body)))(t)
	return sendRequest(t, s, r, user, password)
}

// sendRequest sends an HTTP request to the test server, with a password, a token or no login. For a token the
// user is empty.
func sendRequest(t *testing.T, s *harness.Server, r *http.Request, user, password string) (int, string) {
	t.Helper()
	code, text, err := trySendRequest(s, r, user, password)
	testenv.NoError(t, err)
	return code, text
}

// trySendRequest sends an HTTP request to the test server, and returns connection errors. It returns the error
// of the connection.
func trySendRequest(s *harness.Server, r *http.Request, user, password string) (code int, text string, err error) {
	c := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Authority().Pool(), ServerName: "localhost"}, DisableKeepAlives: true}}
	switch {
	case user != "":
		r.SetBasicAuth(user, password)
	case password != "":
		r.Header.Set("Authorization", "Bearer "+password)
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// Alerts from Grafana's contact point become events in their own namespace. A malformed alert is reported and the
// others are accepted; a user without permission is refused.
func TestGrafanaAlertsBecomeEvents(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Apply("kind: Namespace\nmetadata: {name: web}\n---\nkind: Check\nmetadata: {name: latency, namespace: web, displayName: Latency}\nspec: {passive: true, alert: {failAfter: 2}}\n" +
		"---\nkind: Check\nmetadata: {name: ping, namespace: web}\nspec: {command: 'true', interval: 60s}\n---\nkind: Check\nmetadata: {name: quiet, namespace: web}\nspec: {passive: true, disabled: true}\n")
	file := tempFile(t, "password", "grafana's own words")
	s.CLI("auth", "user", "create", "grafana", "--role", "alerts", "--in", "web", "--password-file", file)
	writeFile(t, file, "P@ssw0rd of all")
	s.CLI("auth", "user", "create", "sensu", "--role", "agent", "--password-file", file)
	viewer := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "viewer"))
	agent := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "alerts", "--in", "web"))
	now := time.Now()
	alert := func(name string, labels map[string]string, ends time.Time) string {
		all := map[string]string{"alertname": name, "grafana_folder": "Shop"}
		for k, v := range labels {
			all[k] = v
		}
		text := testenv.Value(json.Marshal(map[string]any{"labels": all, "annotations": map[string]string{"summary": "slow since noon"}, "startsAt": now, "endsAt": ends, "generatorURL": "https://grafana.example.org/alerting/grafana/x/view"}))(t)
		return string(text)
	}
	fires, past := now.Add(4*time.Minute), now.Add(-time.Second)
	web1 := map[string]string{"instance": "web1.example.org:9100", "severity": "critical"}
	const path = "/alertmanager/web/api/v2/alerts"
	for _, c := range []struct {
		what, path, user, password, body string
		code                             int
		says                             string
	}{
		{"no proof", path, "", "", "[]", 401, "auth token create"},
		{"another's password", path, "grafana", "guessed", "[]", 401, "no user with the role alerts"},
		{"the password of Sensu's agents", path, "sensu", "P@ssw0rd of all", "[]", 401, "no user with the role alerts"},
		{"a viewer's token", path, "", viewer, "[]", 403, "role viewer"},
		{"another namespace", "/alertmanager/api/v2/alerts", "grafana", "grafana's own words", "[]", 403, "namespace"},
		{"another path", "/alertmanager/web/api/v2/silences", "", agent, "[]", 404, "api/v2/alerts"},
		{"a webhook's body", path, "", agent, `{"alerts": []}`, 422, "got a JSON object"},
		{"no JSON", path, "", agent, `[{`, 422, "cannot decode"},
		{"a check of agents", path, "", agent, "[" + alert("Ping", web1, fires) + "]", 422, "agents run check "},
		{"a disabled check", path, "", agent, "[" + alert("Quiet", web1, fires) + "]", 422, "is disabled"},
		{"some are wrong", path, "", agent, "[" + alert("", web1, fires) + "," + alert("Errors", web1, fires) + `, {"labels": 3}]`, 422, "refused 2 of 3 alerts, accepted the others"},
		{"by password, first", path, "grafana", "grafana's own words", "[" + alert("Latency", web1, fires) + "]", 200, "{}"},
		{"older path", "/alertmanager/web/api/v1/alerts", "grafana", "grafana's own words", "[" + alert("Latency", web1, fires) + "]", 200, "{}"},
		{"empty", path, "", agent, "[]", 200, "{}"},
		{"too long", path, "", agent, "[" + strings.Repeat(" ", 8<<20) + "]", 413, "the request's body is larger than the limit of 8MiB"},
	} {
		code, text := postAlerts(t, s, c.path, c.user, c.password, c.body)
		assert(t, code == c.code && strings.Contains(text, c.says), "%s: %d %s, want %d %s", c.what, code, text, c.code, c.says)
	}
	event := func(check string) (model.Status, uint64, bool) {
		e := testenv.Value(s.Client().Events.Get(t.Context(), "web", "web1.example.org", check))(t)
		return e.Status, e.Results, e.Problem != nil
	}
	if status, results, problem := event("latency"); status != model.Critical || results != 1 || problem {
		t.Errorf("repeated at once: %v, %d results, problem %v", status, results, problem)
	}
	status, _, problem := event("errors")
	assert(t, status == model.Critical && problem, "the event of the alert: status %v, problem %v", status, problem)
	code, text := postAlerts(t, s, path, "", agent, "["+alert("Errors", web1, past)+","+alert("Unheard", web1, past)+"]")
	assert(t, code == 200, "%d %s", code, text)
	status, _, problem = event("errors")
	assert(t, status == model.OK && !problem, "the event of the ended alert: status %v, problem %v", status, problem)
	s.Try("get", "checks", "-n", "web").Expect(0, "passive").ExpectNot("unheard")
	look := testenv.Value(http.NewRequest(http.MethodGet, "https://"+s.Listen+"/api/v1/events", nil))(t)
	code, text = sendRequest(t, s, look, "", agent)
	assert(t, code == 403 && strings.Contains(text, "only send alerts"), "an agent's token reads events: got %d %s, expected 403", code, text)
}
