package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// sentTemplate has items whose numbers the server sends to another store.
const sentTemplate = `
kind: Template
metadata: {name: sent}
spec:
  targets: {groups: [all]}
  items:
    - {key: system.uptime, type: unsigned, interval: 1s}
    - {key: third, interval: 1s, formula: "last(//system.uptime)/3"}
    - {key: other, interval: 1s, formula: "last(//system.uptime)"}
`

// lateSamples configures a Prometheus to take the numbers that an agent collected while the server was away: they come behind newer ones.
const lateSamples = "storage: {tsdb: {out_of_order_time_window: 10m}}\n"

// TestRemoteWriteSendsNumbers expects a real Prometheus and a real VictoriaMetrics to get the server's samples by
// remote write. The server is killed and the other store stopped in between; both sides have equal samples.
func TestRemoteWriteSendsNumbers(t *testing.T) {
	for name, store := range map[string]struct {
		program, path string
		arguments     func(listen, dir string) []string
	}{
		"prometheus": {"prometheus", "/api/v1/write", func(listen, dir string) []string {
			return []string{"--config.file", writeFileInFolder(t, dir, "prometheus.yml", lateSamples), "--storage.tsdb.path", dir + "/data", "--web.listen-address", listen, "--web.enable-remote-write-receiver"}
		}},
		"victoria-metrics": {"victoria-metrics", "/api/v1/write", func(listen, dir string) []string {
			return []string{"-storageDataPath", dir + "/data", "-httpListenAddr", listen, "-dedup.minScrapeInterval", "1ms", "-search.latencyOffset", "0s"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := testenv.Program(t, store.program, store.program)
			listen, dir := harness.ReservePort(t), t.TempDir()
			start := func() *exec.Cmd {
				c := exec.Command(program, store.arguments(listen, dir)...)
				testenv.NoError(t, c.Start())
				t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
				return c
			}
			s := harness.StartServer(t, "--snapshot-cycle", "2s", "--remote-write-url", "http://"+listen+store.path, "--remote-write-match", `{item!="other"}`)
			s.Login()
			s.StartAgent("db1")
			s.Apply(sentTemplate)
			theirs := start()
			agree := func(least int) {
				t.Helper()
				api := s.Client()
				harness.Until(t, 90*time.Second, "equal samples", func() (string, bool) {
					at := time.Now().Add(-3 * time.Second) // newer ones may be on their way
					ours := samplesInMuster(t, api, at)
					them, err := samplesInReceiver("http://"+listen, at)
					return fmt.Sprintf("%v\nours   %v\ntheirs %v", err, ours, them), len(ours) >= least && slices.Equal(ours, them)
				})
			}
			agree(10)
			s.Kill()
			s.Launch()
			s.WaitReady(40 * time.Second)
			agree(20)
			testenv.NoError(t, theirs.Process.Signal(os.Interrupt)) // a kill would cost VictoriaMetrics its last seconds
			_ = theirs.Wait()
			s.AwaitOutput("status", "remote write is", "wait: 127.0.0.1:")
			s.Kill() // with samples that wait
			s.Launch()
			s.WaitReady(40 * time.Second)
			start()
			agree(40)
			if them, err := samplesInReceiver("http://"+listen, time.Now()); err != nil || slices.ContainsFunc(them, func(line string) bool { return strings.Contains(line, "other") }) {
				t.Errorf("samples beside the selector: %v %v", err, them)
			}
		})
	}
}

// sampleQuery selects the samples that tests compare.
const sampleQuery = `{__name__=~"system_uptime|third|other",node="db1"}[10m]`

// samplesInMuster returns the samples up to a given time that Muster should have sent by remote write. They are
// sorted lines of text.
func samplesInMuster(t *testing.T, c *client.Client, at time.Time) []string {
	result := testenv.Value(c.QuerySeries(t.Context(), "default", sampleQuery, at))(t)
	return slices.DeleteFunc(sampleLines(testenv.Value(result.Rows())(t)), func(line string) bool { return strings.HasPrefix(line, "other") })
}

// samplesInReceiver returns the samples up to a given time that another server received by remote write. They
// are sorted lines of text.
func samplesInReceiver(server string, at time.Time) ([]string, error) {
	answer, err := http.Get(server + "/api/v1/query?" + url.Values{"query": {sampleQuery}, "time": {fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000)}}.Encode())
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var body struct{ Data v1.SeriesResult }
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	rows, err := body.Data.Rows()
	return sampleLines(rows), err
}

// sampleLines formats metric samples as sorted lines of text, for comparison. Numbers have ten significant digits,
// because VictoriaMetrics stores decimal numbers.
func sampleLines(rows []v1.SeriesRow) (lines []string) {
	for i := range rows {
		for _, p := range rows[i].Values {
			value, _ := strconv.ParseFloat(p.Value, 64)
			lines = append(lines, fmt.Sprintf("%s %.3f %.10g", rows[i].Metric["__name__"], p.Seconds, value))
		}
	}
	slices.Sort(lines)
	return lines
}
