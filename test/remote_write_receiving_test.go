package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestPrometheusWritesSamples lets a real Prometheus write the samples of a counter, and expects each sample once. The
// counter grows by one with each scrape, and the server is killed in between.
func TestPrometheusWritesSamples(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "prometheus", "prometheus")
	var scrapes atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "scrapes %d\n", scrapes.Add(1)) }))
	t.Cleanup(target.Close)
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.Apply("kind: Namespace\nmetadata: {name: web}\n")
	token := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "remote-write", "--in", "web", "-m", "samples of prometheus"))
	dir := t.TempDir()
	ca := writeFileInFolder(t, dir, "ca.crt", string(s.Authority().CAPEM()))
	runPrometheus(t, program, writeFileInFolder(t, dir, "prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 300ms, scrape_timeout: 300ms}
scrape_configs:
- job_name: counter
  static_configs: [{targets: [%q], labels: {namespace: shop}}]
remote_write:
- url: https://%s/prometheus/web/api/v1/write
  authorization: {credentials: %q}
  tls_config: {ca_file: %q}
  queue_config: {batch_send_deadline: 200ms, min_backoff: 100ms, max_backoff: 500ms}
`, strings.TrimPrefix(target.URL, "http://"), s.Listen, token, ca)))
	said := ""
	number := func(query string) (value float64) {
		t.Helper()
		var list struct{ Result []struct{ Value [2]any } }
		ran := harness.Run(t, s.Env(), "query", query, "-n", "web", "-o", "json")
		said = ran.Out + ran.Errors
		if ran.Code == 0 && json.Unmarshal([]byte(ran.Out), &list) == nil && len(list.Result) == 1 {
			_, _ = fmt.Sscan(list.Result[0].Value[1].(string), &value)
		}
		return value
	}
	const all = `scrapes{namespace="web", exported_namespace="shop"}[10m]`
	reaches := func(n float64) {
		t.Helper()
		harness.Until(t, 60*time.Second, fmt.Sprintf("sample %v is stored", n), func() (string, bool) {
			last := number("max_over_time(" + all + ")")
			return said, last >= n
		})
	}
	reaches(8)
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	reaches(20)
	missing := number("max_over_time(" + all + ") - count_over_time(" + all + ")")
	first := number("min_over_time(" + all + ")")
	assert(t, missing == 0 && first == 1, "%v samples are missing (negative: too many), the first is %v", missing, first)
	harness.Run(t, s.Env(), "query", "scrapes", "-A").Expect(0, "scrapes", "web")
}
