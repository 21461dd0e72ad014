package test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Sizes of BenchmarkRemoteWriteComparison.
const (
	writtenTargets = 200 // of 500 series each
	writtenSeries  = 500
	writtenRounds  = 30 // samples of each series
)

// writtenRule is an alerting rule over a tenth of the series, evaluated each second.
const writtenRule = `{alert: High, expr: "app_requests_total{mode=\"mode-3\"} > 1e12"}`

// remoteWriteRequests returns the compressed remote-write requests of one benchmark round. Each has 2,000 samples.
func remoteWriteRequests(b *testing.B, round int, at time.Time) (list [][]byte) {
	var r prompb.WriteRequest
	for target := range writtenTargets {
		for i := range writtenSeries {
			n := target*writtenSeries + i
			r.Timeseries = append(r.Timeseries, prompb.TimeSeries{
				Labels: []prompb.Label{
					{Name: "__name__", Value: "app_requests_total"}, {Name: "cpu", Value: strconv.Itoa(i / 10)}, {Name: "instance", Value: fmt.Sprintf("db-%04d:9100", target)},
					{Name: "job", Value: "node"}, {Name: "mode", Value: fmt.Sprint("mode-", i%10)},
				},
				Samples: []prompb.Sample{{Timestamp: at.UnixMilli(), Value: float64(n%1000*round) + float64(n*7919%100)/100}},
			})
			if len(r.Timeseries) == 2000 {
				list = append(list, snappy.Encode(nil, testenv.Value(r.Marshal())(b)))
				r.Timeseries = r.Timeseries[:0]
			}
		}
	}
	return list
}

// BenchmarkRemoteWriteComparison compares what storing remote-write samples costs in Muster, Prometheus and
// VictoriaMetrics. It writes the same samples of 100,000 series to each in turn by remote write 1.0, one request at a
// time. The server and the Prometheus evaluate an alerting rule over a tenth of the series each second. It reports the
// processor time of the other process per sample, without the first round, which makes the series. Run it with
// -benchtime 1x.
func BenchmarkRemoteWriteComparison(b *testing.B) {
	prometheus, victoria := testenv.Program(b, "prometheus", "prometheus"), testenv.Program(b, "victoria-metrics", "victoria-metrics")
	start := func(program string, arguments ...string) int {
		c := exec.Command(program, arguments...)
		testenv.NoError(b, c.Start())
		b.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c.Process.Pid
	}
	for _, x := range []struct {
		name  string
		start func() (pid int, url, token string, client *http.Client)
	}{
		{"muster", func() (int, string, string, *http.Client) {
			s := harness.StartServer(b)
			s.Login()
			s.Apply("kind: RuleGroup\nmetadata: {name: high}\nspec: {interval: 1s, rules: [" + writtenRule + "]}\n")
			token := strings.TrimSpace(s.CLI("auth", "token", "create", "--role", "remote-write", "--in", "default", "-m", "samples"))
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(s.Authority().CAPEM())
			return s.PID(), "https://" + s.Listen + "/prometheus/api/v1/write", token, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
		}},
		{"prometheus", func() (int, string, string, *http.Client) {
			dir, listen := b.TempDir(), harness.ReservePort(b)
			rules := writeFileInFolder(b, dir, "rules.yml", "groups: [{name: high, interval: 1s, rules: ["+writtenRule+"]}]\n")
			config := writeFileInFolder(b, dir, "prometheus.yml", "rule_files: ["+rules+"]\n")
			return start(prometheus, "--config.file="+config, "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+listen, "--web.enable-remote-write-receiver", "--log.level=error"), "http://" + listen + "/api/v1/write", "", http.DefaultClient
		}},
		{"victoria-metrics", func() (int, string, string, *http.Client) {
			listen := harness.ReservePort(b)
			return start(victoria, "-storageDataPath", b.TempDir(), "-httpListenAddr", listen, "-loggerLevel", "ERROR"), "http://" + listen + "/api/v1/write", "", http.DefaultClient
		}},
	} {
		b.Run(x.name, func(b *testing.B) {
			pid, url, token, client := x.start()
			post := func(body []byte) (status string, err error) {
				r := testenv.Value(http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body)))(b)
				r.Header.Set("Content-Type", "application/x-protobuf")
				r.Header.Set("Content-Encoding", "snappy")
				r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				answer, err := client.Do(r)
				if err != nil {
					return "", err
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				return answer.Status + " " + string(text), err
			}
			accepted := func(status string, err error) bool { return err == nil && strings.HasPrefix(status, "2") }
			first := time.Now().Add(-writtenRounds * time.Second)
			harness.Until(b, time.Minute, "the store takes samples", func() (string, bool) {
				status, err := post(remoteWriteRequests(b, 0, first)[0])
				return fmt.Sprint(status, err), accepted(status, err)
			})
			for b.Loop() {
				used, took := time.Duration(0), time.Duration(0)
				for round := range writtenRounds {
					bodies := remoteWriteRequests(b, round, first.Add(time.Duration(round)*time.Second))
					before, began := processorTime(b, pid), time.Now()
					for _, body := range bodies {
						if status, err := post(body); !accepted(status, err) {
							b.Fatal(status, err)
						}
					}
					if round > 0 {
						used, took = used+processorTime(b, pid)-before, took+time.Since(began)
					}
				}
				const samples = writtenTargets * writtenSeries * (writtenRounds - 1)
				b.ReportMetric(float64(used.Nanoseconds())/samples, "cpu-ns/sample")
				b.ReportMetric(samples/took.Seconds(), "samples/s")
				first = first.Add(writtenRounds * time.Second)
			}
		})
	}
}
