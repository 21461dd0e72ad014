package measure

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestFormatsGolden parses example outputs of each metric format, and compares the values with golden files.
func TestFormatsGolden(t *testing.T) {
	for _, format := range model.MetricFormats {
		files, err := filepath.Glob("testdata/" + format + "*.txt")
		if err != nil || len(files) == 0 {
			t.Fatalf("no example of %s: %v", format, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			testenv.NoError(t, err)
			output, _, _ := strings.Cut(string(text), "\n----\n")
			values, bad := Parse(format, []byte(output), false, map[string]string{"team": "web"})
			got := formatValues(values) + fmt.Sprintf("passed over: %d\n", bad)
			testenv.Golden(t, file, output+"\n----\n"+got)
		}
	}
}

// formatValues formats measured values as lines of text.
func formatValues(values []model.Value) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%s", v.Name)
		for _, k := range slices.Sorted(maps.Keys(v.Tags)) {
			fmt.Fprintf(&b, " %s=%q", k, v.Tags[k])
		}
		fmt.Fprintf(&b, " = %v", v.Value)
		if !v.At.IsZero() {
			fmt.Fprintf(&b, " at %s", v.At.Format(time.RFC3339Nano))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestCutOutputIsNotParsedPartly parses an output cut inside a number, and expects no value for that number.
func TestCutOutputIsNotParsedPartly(t *testing.T) {
	for format, output := range map[string]string{
		"nagios": "OK|a=1 b=23… [cut 7 bytes]", "graphite": "a 1 1764007200\nb 23… [cut 7 bytes]",
		"prometheus": "a 1\nb 23… [cut 7 bytes]", "opentsdb": "a 1764007200 1\nb 1764007200 23… [cut 7 bytes]",
	} {
		values, _ := Parse(format, []byte(output), true, nil)
		if len(values) != 1 || values[0].Name != "a" {
			t.Errorf("%s: %s", format, formatValues(values))
		}
	}
}

// TestValuesPerResultAreLimited parses more values than a check result may contain, and expects the parser to
// drop the surplus. The surplus is counted.
func TestValuesPerResultAreLimited(t *testing.T) {
	values, bad := Parse("graphite", []byte(strings.Repeat("a 1\n", model.MaxValues+5)), false, nil)
	if len(values) != model.MaxValues || bad != 5 {
		t.Errorf("%d values, %d passed over", len(values), bad)
	}
}

// FuzzNagios parses random performance data of Nagios plug-ins, and expects values within the protocol's limits.
func FuzzNagios(f *testing.F) { fuzzFormat(f, "nagios") }

// FuzzGraphite parses random outputs in Graphite's format, and expects values within the protocol's limits.
func FuzzGraphite(f *testing.F) { fuzzFormat(f, "graphite") }

// FuzzInfluxdb parses random outputs in InfluxDB's format, and expects values within the protocol's limits.
func FuzzInfluxdb(f *testing.F) { fuzzFormat(f, "influxdb") }

// FuzzOpentsdb parses random outputs in OpenTSDB's format, and expects values within the protocol's limits.
func FuzzOpentsdb(f *testing.F) { fuzzFormat(f, "opentsdb") }

// FuzzPrometheus parses random outputs in Prometheus's text format, and expects values within the protocol's limits.
func FuzzPrometheus(f *testing.F) { fuzzFormat(f, "prometheus") }

// fuzzFormat parses random outputs in one format, and expects values within the protocol's limits.
func fuzzFormat(f *testing.F, format string) {
	files, err := filepath.Glob("testdata/" + format + "*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		output, _, _ := strings.Cut(string(text), "\n----\n")
		f.Add([]byte(output), false)
	}
	f.Add([]byte("a{b=\"c\\"), true)
	f.Fuzz(func(t *testing.T, output []byte, cut bool) {
		values, bad := Parse(format, output, cut, nil)
		if len(values) > model.MaxValues || bad < 0 {
			t.Fatalf("%d values, %d bad", len(values), bad)
		}
		for _, v := range values {
			if v.Name == "" || len(v.Name) > 255 || len(v.Tags) > model.MaxValueTags || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
				t.Fatalf("%+v", v)
			}
		}
	})
}

// TestThresholdsRaiseTheStatus compares values with thresholds, and expects exceeded thresholds to worsen the status.
// Each exceeded threshold has a line in the output.
func TestThresholdsRaiseTheStatus(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	values := []model.Value{
		{Name: "used", Tags: map[string]string{"mount": "/"}, Value: 85},
		{Name: "used", Tags: map[string]string{"mount": "/var"}, Value: 95},
		{Name: "free", Value: 0},
	}
	most := func(n float64) *model.Bounds { return &model.Bounds{Max: number(n)} }
	for name, c := range map[string]struct {
		status model.Status
		t      model.Threshold
		want   model.Status
		line   string // empty: none
	}{
		"within":              {model.OK, model.Threshold{Metric: "used", Warning: most(95)}, model.OK, ""},
		"one of several":      {model.OK, model.Threshold{Metric: "used", Warning: most(90)}, model.Warning, "WARNING: used{mount=/var} is 95, more than 90"},
		"the worst counts":    {model.OK, model.Threshold{Metric: "used", Warning: most(80), Critical: most(90)}, model.Critical, "CRITICAL: used{mount=/var} is 95, more than 90"},
		"by tag":              {model.OK, model.Threshold{Metric: "used", Tags: map[string]string{"mount": "/"}, Warning: most(80), Critical: most(90)}, model.Warning, "WARNING: used{mount=/} is 85"},
		"too small":           {model.OK, model.Threshold{Metric: "free", Critical: &model.Bounds{Min: number(1)}}, model.Critical, "CRITICAL: free is 0, less than 1"},
		"a bound of zero":     {model.OK, model.Threshold{Metric: "free", Critical: &model.Bounds{Min: number(0), Max: number(0)}}, model.OK, ""},
		"never lowers":        {model.Critical, model.Threshold{Metric: "used", Warning: most(80)}, model.Critical, "WARNING: used{mount=/} is 85"},
		"unknown is less":     {model.Critical, model.Threshold{Metric: "used", Unknown: most(80)}, model.Critical, "UNKNOWN: used"},
		"unknown is more":     {model.Warning, model.Threshold{Metric: "used", Unknown: most(80)}, model.Unknown, "UNKNOWN: used"},
		"missing":             {model.OK, model.Threshold{Metric: "swap", Missing: "critical"}, model.Critical, "CRITICAL: the output has no swap"},
		"missing by its tag":  {model.OK, model.Threshold{Metric: "used", Tags: map[string]string{"mount": "/home"}, Missing: "unknown"}, model.Unknown, "the output has no used{mount=/home}"},
		"missing and fine":    {model.OK, model.Threshold{Metric: "swap", Critical: most(1)}, model.OK, ""},
		"there, not missing ": {model.OK, model.Threshold{Metric: "free", Missing: "critical"}, model.OK, ""},
	} {
		status, lines := ApplyThresholds(c.status, values, []model.Threshold{c.t})
		text := strings.Join(lines, "\n")
		if status != c.want || c.line == "" && text != "" || !strings.HasPrefix(text, c.line) && !strings.Contains(text, c.line) {
			t.Errorf("%s: %s %q, want %s %q", name, status, text, c.want, c.line)
		}
	}
}

// TestParsePage parses a page of an exporter, and expects all its numbers, and the line of a fault.
func TestParsePage(t *testing.T) {
	page := "# HELP a text\n# TYPE a histogram\na_bucket{le=\"0.5\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 0.5\n\n" +
		"q{quantile=\"0.5\"} NaN\nnode{path=\"C:\\\\x \\\"y}\\\"\",node=\"n\"} -Inf 1700000000000\nbig 1.5e+09\n"
	all, err := ParsePage([]byte(page), 6, nil)
	var got []string
	for _, v := range all {
		text := fmt.Sprintf("%s %v %v", v.Name, v.Tags, v.Value)
		if !v.At.IsZero() {
			text += fmt.Sprint(" at ", v.At.Unix())
		}
		got = append(got, text)
	}
	want := []string{"a_bucket map[le:0.5] 1", "a_bucket map[le:+Inf] 2", "a_sum map[] 0.5", "q map[quantile:0.5] NaN", `node map[node:n path:C:\x "y}"] -Inf at 1700000000`, "big map[] 1.5e+09"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	some, err := ParsePage([]byte(page), 2, func(series []byte) bool {
		return strings.HasPrefix(string(series), `a_bucket{le="0.5"}`) || string(series) == "big"
	})
	if err != nil || len(some) != 2 {
		t.Errorf("kept %v, %v", some, err)
	}
	for text, want := range map[string]string{
		"a 1\n<html>\n":    "line 2 has not the format",
		"a 1\nb\t2\nc 3\n": "more than 2 series: choose some",
		"a 1\n" + strings.Repeat("b", 70<<10) + " 1": "line 2 has 71682 bytes, at most 65536",
		"a{" + manyLabels(65) + "} 1":                "line 1 has 65 labels, at most 64",
	} {
		if got, err := ParsePage([]byte(text), 2, nil); got != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %d values, %v, expected %q", text, len(got), err, want)
		}
	}
	if some, err := ParsePage([]byte("a{"+manyLabels(64)+"} 1\nb\t2\nc\t3\n"), 2, func(series []byte) bool { return string(series) != "b" }); err != nil || len(some) != 2 {
		t.Errorf("kept %v, %v", some, err)
	}
}

// manyLabels returns the text of n labels.
func manyLabels(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`l%d="",`, i)
	}
	return text
}

// FuzzParsePage parses random pages, and expects as many numbers as lines at most, and no more than five.
func FuzzParsePage(f *testing.F) {
	f.Add([]byte("a{b=\"c\"} 1 2\nd NaN\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		values, err := ParsePage(page, 5, func(series []byte) bool { return len(series) > 0 })
		if len(values) > min(5, strings.Count(string(page), "\n")+1) || err != nil && values != nil {
			t.Fatal(len(values), err)
		}
	})
}
