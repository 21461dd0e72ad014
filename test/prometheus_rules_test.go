package test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// rulesFile is a rules file of Prometheus: the same for a real Prometheus and for Muster.
const rulesFile = `groups:
- name: Load of site
  interval: 1s
  rules:
  - record: site:load:sum
    expr: sum by (job) (load)
  - alert: LoadIsHigh
    expr: load > 4
    for: 3s
    labels: {severity: critical}
    annotations: {summary: "load {{ $value }} on {{ $labels.node }}"}
  - alert: SumIsHigh
    expr: site:load:sum > 4
    keep_firing_for: 2s
`

// rulesAnswer is the list of rules in an answer of the API of Prometheus or Muster.
type rulesAnswer struct {
	Data struct {
		Groups []map[string]json.RawMessage
	}
}

// TestRulesOfPrometheus evaluates one rules file in Prometheus and in Muster, and expects equal series and alerts.
// Both use the same samples, and the server is killed while alerts fire. Each alert has one problem, which closes with
// the alert.
func TestRulesOfPrometheus(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "prometheus", "prometheus")
	promtool := testenv.Program(t, "promtool", "prometheus")
	var load atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "load %d\n", load.Load()) }))
	t.Cleanup(target.Close)
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.Apply("kind: Node\nmetadata: {name: web1}\nspec: {proxy: true}\n")
	dir := t.TempDir()
	rules := writeFileInFolder(t, dir, "rules.yml", rulesFile)
	imported := filepath.Join(dir, "imported.yaml")
	harness.Run(t, s.Env(), "import", "prometheus", rules, "--out", imported).Expect(0, "1 group of 3 rules became 1 resource")
	harness.Run(t, s.Env(), "apply", "-f", imported).Expect(0, "rulegroup/load-of-site created")
	harness.Run(t, s.Env(), "apply", "-f", writeFileInFolder(t, dir, "wrong.yaml", "kind: RuleGroup\nmetadata: {name: wrong}\nspec: {rules: [{record: x, expr: 'sum(('}]}\n")).Expect(2, "rule x", "parse error")
	write := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "remote-write", "-m", "samples of prometheus"))
	read := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "viewer", "-m", "promtool"))
	ca := writeFileInFolder(t, dir, "ca.crt", string(s.Authority().CAPEM()))
	address := runPrometheus(t, program, writeFileInFolder(t, dir, "prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
- job_name: site
  static_configs: [{targets: [%q], labels: {node: web1}}]
remote_write:
- url: https://%s/prometheus/api/v1/write
  authorization: {credentials: %q}
  tls_config: {ca_file: %q}
  queue_config: {batch_send_deadline: 100ms, min_backoff: 100ms, max_backoff: 500ms}
  write_relabel_configs: [{source_labels: [__name__], regex: load, action: keep}]
`, strings.TrimPrefix(target.URL, "http://"), s.Listen, write, ca)))
	muster := "https://any:" + read + "@" + s.Listen + "/prometheus"
	query := func(server, expr string) string {
		cmd := exec.CommandContext(t.Context(), promtool, "query", "instant", server, expr)
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+ca)
		out, _ := cmd.CombinedOutput()
		lines := strings.Split(strings.NewReplacer(`namespace="default", `, "", `, namespace="default"`, "").Replace(strings.TrimSpace(string(out))), "\n")
		for i, line := range lines { // without the time
			lines[i], _, _ = strings.Cut(line, " @[")
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	agree := func(what, expr string, parts ...string) {
		t.Helper()
		harness.Until(t, 60*time.Second, what, func() (string, bool) {
			theirs, ours := query("http://"+address, expr), query(muster, expr)
			ok := theirs == ours
			for _, part := range parts {
				ok = ok && strings.Contains(ours, part)
			}
			return "prometheus:\n" + theirs + "\nmuster:\n" + ours, ok
		})
	}
	const alerts = `{__name__=~"ALERTS|site:.+"}`
	load.Store(2)
	agree("both record the sum", alerts, `site:load:sum{job="site"} => 2`)
	load.Store(9)
	agree("alerts fire", alerts, `site:load:sum{job="site"} => 9`, `alertname="LoadIsHigh", alertstate="firing"`, `alertname="SumIsHigh", alertstate="firing"`)
	s.AwaitOutput("get problems", "LoadIsHigh{", "SumIsHigh{", "load 9 on web1")
	compareRules(t, getRules(t, s, "http://"+address+"/api/v1/rules", ""), getRules(t, s, "https://"+s.Listen+"/prometheus/api/v1/rules", read))
	problems, err := s.Client().Problems.List(t.Context(), "", "", "", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 2, "problems: %v %+v", err, problems.Items)
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	harness.Run(t, s.Env(), "get", "problems").Expect(0, "LoadIsHigh{", "SumIsHigh{")
	agree("alerts fire after the restart", alerts, `alertname="LoadIsHigh", alertstate="firing"`)
	s.AwaitOutput("get rules", "LoadIsHigh     firing (1 firing, 0 pending)", "SumIsHigh      firing (1 firing, 0 pending)")
	again, err := s.Client().Problems.List(t.Context(), "", "", "", true, 0, "")
	assert(t, err == nil && len(again.Items) == 2 && again.Items[0].ID == problems.Items[0].ID, "problems after the restart: %v %+v", err, again.Items)
	load.Store(1)
	agree("alerts end", alerts, `site:load:sum{job="site"} => 1`)
	harness.Until(t, 60*time.Second, "the problems close", func() (string, bool) {
		out := harness.Run(t, s.Env(), "get", "problems", "--open").Out
		return out, !strings.Contains(out, "IsHigh")
	})
	s.AwaitOutput("get rules", "LoadIsHigh", "site:load:sum", "ok")
	s.CLI("delete", "rulegroup", "load-of-site", "--yes")
	harness.Until(t, 60*time.Second, "events of a deleted group go", func() (string, bool) {
		out := harness.Run(t, s.Env(), "get", "events").Out
		return out, !strings.Contains(out, "IsHigh")
	})
}

// getRules requests the state of all rules from Prometheus or Muster.
func getRules(t *testing.T, s *harness.Server, url, token string) (a rulesAnswer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	testenv.NoError(t, err)
	client := http.DefaultClient
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(s.Authority().CAPEM())
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	}
	answer, err := client.Do(r)
	testenv.NoError(t, err)
	defer answer.Body.Close()
	testenv.NoError(t, json.NewDecoder(answer.Body).Decode(&a))
	return a
}

// compareRules compares the rule states that Prometheus and Muster returned for the same rules file. Values
// that depend on time are left out.
func compareRules(t *testing.T, theirs, ours rulesAnswer) {
	t.Helper()
	if len(theirs.Data.Groups) != 1 || len(ours.Data.Groups) != 1 {
		t.Fatalf("prometheus has %d groups, muster has %d", len(theirs.Data.Groups), len(ours.Data.Groups))
	}
	var rules [2][]map[string]any
	for i, g := range []map[string]json.RawMessage{theirs.Data.Groups[0], ours.Data.Groups[0]} {
		testenv.NoError(t, json.Unmarshal(g["rules"], &rules[i]))
		for _, r := range rules[i] {
			for _, alert := range append(asList(r["alerts"]), r) {
				fields := alert.(map[string]any)
				if labels, ok := fields["labels"].(map[string]any); ok {
					if delete(labels, "namespace"); len(labels) == 0 {
						delete(fields, "labels") // some versions leave empty labels out
					}
				}
				for _, name := range []string{"evaluationTime", "lastEvaluation", "activeAt"} {
					if fields[name] != nil {
						fields[name] = "some"
					}
				}
			}
		}
	}
	for _, name := range []string{"name", "interval", "rules", "evaluationTime", "lastEvaluation", "file", "limit"} {
		if (theirs.Data.Groups[0][name] == nil) != (ours.Data.Groups[0][name] == nil) {
			t.Errorf("field %s: prometheus %s, muster %s", name, theirs.Data.Groups[0][name], ours.Data.Groups[0][name])
		}
	}
	a, _ := json.MarshalIndent(rules[0], "", " ")
	b, _ := json.MarshalIndent(rules[1], "", " ")
	if string(a) != string(b) {
		t.Errorf("rules of prometheus:\n%s\nof muster:\n%s", a, b)
	}
}

// asList returns a decoded JSON value as a list, or an empty list for other values. Another value gives an empty list.
func asList(v any) []any {
	list, _ := v.([]any)
	return list
}
