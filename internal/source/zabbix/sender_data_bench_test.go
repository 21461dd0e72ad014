package zabbix

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSenderData measures how long a request with 250 values takes, from decoding to a journal in memory.
func BenchmarkSenderData(b *testing.B) {
	x := newTestServer(b)
	x.cfg.Limiter.Defaults.NodeResultsPerSec = 1e12
	var data []string
	for i := range 250 {
		data = append(data, fmt.Sprintf(`{"host":"web1","key":"n[2]","value":"%d.5","clock":1795233665,"ns":%d}`, i, i))
	}
	payload := []byte(`{"request":"sender data","data":[` + strings.Join(data, ",") + `],"clock":1795233665,"ns":131780900}`)
	b.ReportAllocs()
	for b.Loop() {
		x.records = x.records[:0]
		r, err := parseRequest(payload)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := x.storeSenderData(b.Context(), loopback(), r, len(payload)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/250, "ns/value")
}
