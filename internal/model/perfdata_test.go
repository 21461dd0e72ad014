package model

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestParseOutputGolden reads testdata/perfdata/*.txt (outputs of plug-ins) and
// compares what is understood with the .golden beside each.
func TestParseOutputGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/perfdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no test data")
	}
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out := ParseOutput(in)
		var b strings.Builder
		fmt.Fprintf(&b, "summary %q\ndetails %q\nbad %d\n", out.Summary, out.Details, out.Malformed)
		for _, d := range out.PerfData {
			fmt.Fprintf(&b, "%s\n", d.Append(nil))
		}
		golden := strings.TrimSuffix(file, ".txt") + ".golden"
		testenv.Golden(t, golden, b.String())
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		text       string
		alerts, ok []float64
		canonical  string
	}{
		{"10", []float64{-1, 11}, []float64{0, 10}, "10"},
		{"10:", []float64{9}, []float64{10, 1e9}, "10:"},
		{"~:10", []float64{11}, []float64{-1e9, 10}, "~:10"},
		{"10:20", []float64{9, 21}, []float64{10, 20}, "10:20"},
		{"@10:20", []float64{10, 20}, []float64{9, 21}, "@10:20"},
		{"0:10", []float64{-1}, []float64{5}, "10"},
		{"-5:-1.5", []float64{0}, []float64{-2}, "-5:-1.5"},
		{":10", []float64{11}, []float64{1}, "10"},
	} {
		r, err := ParseRange(c.text)
		if err != nil || r.String() != c.canonical {
			t.Errorf("%s: %v, %s", c.text, err, r)
		}
		for _, v := range c.alerts {
			if !r.Violates(v) {
				t.Errorf("%s: %v must alert", c.text, v)
			}
		}
		for _, v := range c.ok {
			if r.Violates(v) {
				t.Errorf("%s: %v must not alert", c.text, v)
			}
		}
	}
	for _, bad := range []string{"", "x", "1:x", "20:10", "~", "@", "1:2:3", "1 2"} {
		if r, err := ParseRange(bad); err == nil {
			t.Errorf("%q read as %v", bad, r)
		}
	}
}

func FuzzParseOutput(f *testing.F) {
	files, _ := filepath.Glob("testdata/perfdata/*.txt")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range ParseOutput(data).PerfData {
			printed := d.Append(nil)
			again, bad := appendPerfdata(nil, printed)
			if strings.ContainsAny(d.Label, "\n\r|") {
				continue // cannot be printed as it is
			}
			if bad != 0 || len(again) != 1 || string(again[0].Append(nil)) != string(printed) {
				t.Fatalf("%q printed as %q and read as %+v", data, printed, again)
			}
			if again[0].Label != d.Label || again[0].Value != d.Value && !math.IsNaN(d.Value) {
				t.Fatalf("%+v became %+v", d, again[0])
			}
		}
	})
}
