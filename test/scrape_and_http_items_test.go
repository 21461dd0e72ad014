//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/measure"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// exporterPage is a page of an exporter with each type of metric of Prometheus.
const exporterPage = `# HELP shop_requests_seconds Durations.
# TYPE shop_requests_seconds histogram
shop_requests_seconds_bucket{path="/",le="0.1"} 10
shop_requests_seconds_bucket{path="/",le="1"} 20
shop_requests_seconds_bucket{path="/",le="+Inf"} 20
shop_requests_seconds_sum{path="/"} 5.25
shop_requests_seconds_count{path="/"} 20
# TYPE shop_wait_seconds summary
shop_wait_seconds{quantile="0.5"} 0.25
shop_wait_seconds{quantile="0.9"} NaN
shop_wait_seconds_sum 1e+06
shop_orders{node="other",state="open"} 7
shop_orders{node="other",state="paid"} 9
shop_size_bytes{path="C:\\x \"y\""} 1.8446744073709552e+19
`

const scrapeResources = `
kind: Check
metadata: {name: shop}
spec:
  targets: {groups: [all]}
  interval: 1s
  probe: {name: prometheus, args: {url: "%[1]s/metrics"}}
  metrics: {tags: {job: orders}}
---
kind: Template
metadata: {name: shop-status}
spec:
  targets: {groups: [all]}
  macros: {"{$SHOP.URL}": "%[1]s"}
  items:
    - {key: shop.status, type: text, interval: 1s, noHistory: true, http: {url: "{$SHOP.URL}/status", headers: {X-Token: t0p}}}
    - {key: shop.open, from: shop.status, steps: [{jsonPath: $.open}]}
    - {key: shop.gone, type: text, interval: 1s, http: {url: "{$SHOP.URL}/gone"}}
    - {key: shop.waits, interval: 1s, http: {url: "{$SHOP.URL}/metrics"}, steps: [{prometheusPattern: ['shop_orders{state="open"}', value]}]}
  triggers: [{name: orders are open, expression: "last(//shop.open)>40"}]
`

// TestScrapedPageEqualsSeries scrapes an exporter, and expects each number of its page by PromQL.
// Items by HTTP requests get answers longer than texts that are kept.
func TestScrapedPageEqualsSeries(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			http.Error(w, "down", http.StatusServiceUnavailable)
		case r.URL.Path == "/metrics":
			fmt.Fprint(w, exporterPage)
		case r.URL.Path == "/status" && r.Header.Get("X-Token") == "t0p":
			fmt.Fprintf(w, `{"pad": "%s", "open": 42}`, strings.Repeat("x", 400_000))
		default:
			http.NotFound(w, r)
		}
	}))
	defer shop.Close()
	s := harness.StartServer(t)
	s.Login()
	s.StartAgent("web1")
	s.Apply(fmt.Sprintf(scrapeResources, shop.URL))
	query := func(expression string) string {
		ran := harness.Run(t, s.Env(), "query", expression, "-o", "json")
		return ran.Out
	}
	harness.Until(t, 60*time.Second, "a scrape", func() (string, bool) { text := query("up"); return text, strings.Contains(text, `"orders"`) })
	want := testenv.Value(measure.ParsePage([]byte(exporterPage), 100_000, nil))(t)
	got := scrapedValues(t, query(`{check="shop"}`))
	for i := range want {
		v := &want[i]
		labels := v.Name
		for _, name := range []string{"le", "node", "path", "quantile", "state"} {
			if value, ok := v.Tags[name]; ok {
				if name == "node" {
					name = "exported_node"
				}
				labels += " " + name + "=" + value
			}
		}
		value, ok := got[labels]
		assert(t, ok && (value == v.Value || math.IsNaN(value) && math.IsNaN(v.Value)), "%s: %v, the page has %v", labels, value, v.Value)
	}
	assert(t, got["up"] == 1 && got["scrape_samples_scraped"] == float64(len(want)) && len(got) == len(want)+3, "got %v", got)
	harness.Run(t, s.Env(), "query", `histogram_quantile(0.5, shop_requests_seconds_bucket{instance=~"web1:.*"})`).Expect(0, "0.1")
	harness.Run(t, s.Env(), "query", `shop_requests_seconds_sum / shop_requests_seconds_count`).Expect(0, "0.2625")

	s.AwaitOutput("get items", "shop.open", "42", "unsupported: HTTP: status 404 Not Found, expected 200", "shop.waits")
	s.AwaitOutput("get problems", "shop-status:orders are open")
	down.Store(true)
	s.AwaitOutput("get problems", "web1", "shop", "HTTP 503 Service Unavailable")
	harness.Until(t, 60*time.Second, "the end of the series", func() (string, bool) {
		text := query(`{check="shop"}`)
		return text, len(scrapedValues(t, text)) == 3 && scrapedValues(t, text)["up"] == 0
	})
}

// scrapedValues returns the values in the answer to a query, by name and labels of the page.
func scrapedValues(t *testing.T, text string) map[string]float64 {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	testenv.NoError(t, json.Unmarshal([]byte(text), &answer))
	values := map[string]float64{}
	for _, r := range answer.Result {
		labels := r.Metric["__name__"]
		for _, name := range []string{"le", "exported_node", "path", "quantile", "state"} {
			if value, ok := r.Metric[name]; ok {
				labels += " " + name + "=" + value
			}
		}
		value, err := strconv.ParseFloat(r.Value[1].(string), 64)
		testenv.NoError(t, err)
		values[labels] = value
	}
	return values
}
