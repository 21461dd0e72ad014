package loadcmd

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// The loader's counters are the sums of what was shown of each second.
func TestLoaderMetricsCount(t *testing.T) {
	o, said := &options{listen: "127.0.0.1:0"}, ""
	see, err := o.listenLoader(t.Context(), func(format string, args ...any) { said = fmt.Sprintf(format, args...) })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		see(report.Sample{Offered: 5, Sent: 6, Acked: 4, Connected: 10, Lag: 2})
	}
	_, url, _ := strings.Cut(said, "loader: ")
	url, _, _ = strings.Cut(url, ",")
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"muster_load_offered_total 15", "muster_load_sent_total 18", "muster_load_acknowledged_total 12", "muster_load_sessions 10", "muster_load_lag_seconds 0.002"} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
}
