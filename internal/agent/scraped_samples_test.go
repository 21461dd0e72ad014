package agent

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// sampleTexts returns the series of a block with their values, sorted.
func sampleTexts(t *testing.T, block []byte) (list []string) {
	var r wire.SampleReader
	testenv.NoError(t, r.Reset(block))
	for r.Next() {
		text := ""
		for _, l := range r.Labels {
			text += l.Name + "=" + l.Value + " "
		}
		value := fmt.Sprint(r.Samples[0].Value)
		if math.Float64bits(r.Samples[0].Value) == math.Float64bits(staleValue) {
			value = "stale"
		}
		list = append(list, fmt.Sprint(text, r.Samples[0].Ms, " ", value))
	}
	testenv.NoError(t, r.Err())
	slices.Sort(list)
	return list
}

// TestSamplesOfScrapes encodes two scrapes, and expects the labels of the target and renamed labels of the page. A series
// ends.
func TestSamplesOfScrapes(t *testing.T) {
	target := map[string]string{"job": "node", "instance": "web1:9100"}
	first := encodeSamples([]model.Value{
		{Name: "up", Value: 1},
		{Name: "pods", Tags: map[string]string{"namespace": "shop", "exported_namespace": "x", "job": "j", "empty": ""}, Value: 3, At: time.UnixMilli(5000)},
		{Name: "gone", Value: 4}, {Name: "up", Value: 9},
	}, target, nil)
	want := []string{
		"__name__=gone instance=web1:9100 job=node 0 4",
		"__name__=pods exported_exported_namespace=shop exported_job=j exported_namespace=x instance=web1:9100 job=node 5000 3",
		"__name__=up instance=web1:9100 job=node 0 1",
	}
	if got := sampleTexts(t, first); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	second := encodeSamples([]model.Value{{Name: "up", Value: 0}}, target, first)
	want = []string{
		"__name__=gone instance=web1:9100 job=node 0 stale",
		"__name__=pods exported_exported_namespace=shop exported_job=j exported_namespace=x instance=web1:9100 job=node 0 stale",
		"__name__=up instance=web1:9100 job=node 0 0",
	}
	if got := sampleTexts(t, second); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := sampleTexts(t, encodeSamples([]model.Value{{Name: "up", Value: 0}}, target, second)); len(got) != 1 {
		t.Errorf("the end of a series is sent again: %q", got)
	}
}

// TestChecksScrapeExporters runs checks with the probe prometheus, and expects samples, compared with thresholds. Failed
// scrapes have reasons.
func TestChecksScrapeExporters(t *testing.T) {
	var lines atomic.Int32
	lines.Store(3)
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			for i := range lines.Load() {
				fmt.Fprintf(w, "queue_waiting{queue=\"q%d\"} %d\n", i, i)
			}
		case "/many":
			_, _ = io.WriteString(w, strings.Repeat("a 1\n", 10_001))
		case "/away":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		case "/html":
			_, _ = io.WriteString(w, "<html>")
		default:
			http.NotFound(w, r)
		}
	}))
	defer exporter.Close()
	s := newTestServer(t)
	most := 1.5
	scrape := func(id model.DefinitionID, path string) *model.CheckDefinition {
		c := shellCheck(id, "", time.Hour)
		c.Command, c.Name, c.Probe = nil, "shop", &model.Probe{Name: "prometheus", Args: map[string]string{"url": exporter.URL + path}}
		return c
	}
	good := scrape(1, "/metrics")
	good.Probe.Args["drop"] = `queue="q0"`
	good.Metrics = &model.Metrics{Format: "nagios", Tags: map[string]string{"job": "orders"}}
	good.Thresholds = []model.Threshold{{Metric: "queue_waiting", Tags: map[string]string{"queue": "q2"}, Critical: &model.Bounds{Max: &most}}}
	s.assign(nil, good, scrape(2, "/many"), scrape(3, "/html"), scrape(4, "/missing"), scrape(5, "/away"))
	startAgent(t, testConfig(s, t.TempDir()))
	s.awaitCondition("all results", func() bool {
		return len(s.resultsOf(1)) == 1 && len(s.resultsOf(2)) == 1 && len(s.resultsOf(3)) == 1 && len(s.resultsOf(4)) == 1 && len(s.resultsOf(5)) == 1
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resultsOf(1)[0]
	if r.Status != model.Critical || !strings.Contains(string(r.Output), "CRITICAL: queue_waiting{queue=q2} is 2, more than 1.5") || len(r.Extra) > 0 {
		t.Errorf("%s %q", r.Status, r.Output)
	}
	got := sampleTexts(t, r.Samples)
	port := testenv.Value(url.Parse(exporter.URL))(t).Port()
	if len(got) != 5 || !strings.HasPrefix(got[0], "__name__=queue_waiting instance=") || !strings.HasSuffix(got[0], ":"+port+" job=orders queue=q1 0 1") ||
		!strings.HasPrefix(got[2], "__name__=scrape_duration_seconds") || !strings.HasSuffix(got[3], "0 2") || !strings.HasPrefix(got[4], "__name__=up") || !strings.HasSuffix(got[4], "0 1") {
		t.Errorf("samples %q", got)
	}
	for id, reason := range map[model.DefinitionID]string{2: "more than 10000 series", 3: "line 1 has not the format", 4: "HTTP 404", 5: "the redirect to another server is not followed"} {
		r := s.resultsOf(id)[0]
		got := sampleTexts(t, r.Samples)
		if r.Status != model.Critical || !strings.Contains(string(r.Output), reason) || len(got) != 3 || !strings.HasSuffix(got[2], "job=shop 0 0") {
			t.Errorf("%s %q %q", r.Status, r.Output, got)
		}
	}
}

// BenchmarkScrape encodes the series of a page of usual size.
func BenchmarkScrape(b *testing.B) {
	var values []model.Value
	for i := range 1500 {
		values = append(values, model.Value{Name: fmt.Sprintf("node_metric_%d_seconds_total", i/10), Tags: map[string]string{"cpu": fmt.Sprint(i % 10), "mode": "idle"}, Value: float64(i) * 1.5})
	}
	target := map[string]string{"job": "node", "instance": "web1:9100"}
	var block []byte
	for b.Loop() {
		block = encodeSamples(values, target, block)
	}
	b.ReportMetric(float64(len(block))/1500, "B/series")
}
