package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestDrawPlot draws rising, constant and very large time series, and compares each plot with expected text.
// Extreme values are at the limits of float64.
func TestDrawPlot(t *testing.T) {
	var out bytes.Buffer
	c := &commandCall{Screen: &screen.Screen{Out: &out, Zone: time.UTC}}
	start := time.Unix(0, 0)
	result := v1.SeriesResult{ResultType: "matrix", Result: json.RawMessage(`[
		{"metric":{"__name__":"load","node":"db1","template":"linux"},"values":[[0,"0"],[1800,"7"],[3600,"14"]]},
		{"metric":{"node":"db2"},"values":[[0,"7"],[1800,"7"],[3600,"NaN"]]}]`)}
	rows, err := result.Rows()
	testenv.NoError(t, err)
	testenv.NoError(t, drawPlot(c, rows, start, start.Add(time.Hour)))
	const want = `          14 |                                                            a
             |
             |
             |
             |
             |
             |
           7 | b                             a
             |
             |
             |
             |
             |
             |
           0 | a
               00:00:00                                            01:00:00
a  load{node="db1"}
b  {node="db2"}
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	rows[0].Values = []v1.SeriesPoint{{Seconds: 0, Value: "-1.7e308"}, {Seconds: 1e9, Value: "1.7e308"}, {Seconds: -5, Value: "+Inf"}}
	testenv.NoError(t, drawPlot(c, rows[:1], start, start.Add(time.Hour)))
}

// FuzzParsePositiveDuration parses random durations, and expects an error or a positive duration.
func FuzzParsePositiveDuration(f *testing.F) {
	for _, seed := range []string{"1h", "0s", "-1s", "9999999d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parsePositiveDuration("range", text); err == nil && d <= 0 {
			t.Errorf("%q: %s", text, d)
		}
	})
}

// TestSeriesOfTwoTemplatesShowTheTemplate formats names of time series from two Templates, and expects the
// label named template in each name. Other names must not have the label.
func TestSeriesOfTwoTemplatesShowTheTemplate(t *testing.T) {
	series := func(node, template string) v1.SeriesRow {
		return v1.SeriesRow{Metric: map[string]string{"__name__": "load", "item": "load", "node": node, "template": template}}
	}
	rows := []v1.SeriesRow{series("db1", "linux"), series("db1", "zabbix"), series("db2", "linux"), {Metric: map[string]string{"template": "linux"}}}
	name := seriesNames(rows)
	for i, want := range []string{`load{item="load",node="db1",template="linux"}`, `load{item="load",node="db1",template="zabbix"}`, `load{item="load",node="db2"}`, `{template="linux"}`} {
		if got := name(rows[i].Metric); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
