package model

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestParseOutputGolden parses outputs of plug-ins, and compares each result with its golden file. The outputs are
// testdata/perfdata/*.txt.
func TestParseOutputGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/perfdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no test data")
	}
	for _, file := range files {
		in, err := os.ReadFile(file)
		testenv.NoError(t, err)
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

// TestParseLongOutput parses an output of 16 MiB, and expects the two valid values at the end. A parser that
// searches the rest of the output for each word takes longer than a test may.
func TestParseLongOutput(t *testing.T) {
	const words = 8 << 20
	out := ParseOutput([]byte("ok | " + strings.Repeat("a ", words) + "last=1 =2 b'=3"))
	if out.Malformed != words+1 || len(out.PerfData) != 2 || out.PerfData[0].Label != "last" || out.PerfData[1].Label != "b'" {
		t.Errorf("%d malformed words, performance data %+v", out.Malformed, out.PerfData)
	}
}

// TestParseRangeFollowsNagios parses Nagios thresholds, and compares which values raise an alert with Nagios' rules
func TestParseRangeFollowsNagios(t *testing.T) {
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

// FuzzParseOutput parses random plug-in outputs, and expects performance data to survive printing and parsing.
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
				continue // this label cannot be printed unchanged
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

// FuzzQuantities parses random durations, sizes, thresholds and statuses, and expects no change after formatting and
// parsing. Only valid texts count.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{
		"30s", "1h30m", "7d", "-5m", "0", "5", "1e3s", "99999999999d", "64KiB", "1.5GiB", "4 MB", "-1", "1e400GiB", "1e20B", "65536",
		"10", "10:", "~:10", "10:20", "@10:20", ":", "@", "~", "1e5:", "", "NaN", "+5:7", ",5:",
		"critical", "3", "not classified", "DISASTER", "00000000000000ff", "+1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d {
				t.Errorf("duration %q is %d, printed %q, read again %d, %v", text, d, d, again, err)
			}
		}
		if s, err := ParseSize(text); err == nil {
			if again, err := ParseSize(s.String()); err != nil || again != s || s < 0 {
				t.Errorf("size %q is %d, printed %q, read again %d, %v", text, s, s, again, err)
			}
		}
		if r, err := ParseRange(text); err == nil {
			if again, err := ParseRange(r.String()); err != nil || again != r {
				t.Errorf("threshold %q is %+v, printed %q, read again %+v, %v", text, r, r, again, err)
			}
		}
		if s, ok := ParseStatus(text); ok && !strings.EqualFold(s.String(), text) && text != string('0'+rune(s)) {
			t.Errorf("status %q is %s", text, s)
		}
		if s, ok := ParseSeverity(text); ok && !strings.EqualFold(s.String(), text) {
			t.Errorf("severity %q is %s", text, s)
		}
		var id, again StreamID
		if id.UnmarshalText([]byte(text)) == nil && (again.UnmarshalText([]byte(id.String())) != nil || again != id) {
			t.Errorf("stream %q is %d, read again %d", text, id, again)
		}
		var o, same ResultDigest
		if o.UnmarshalText([]byte(text)) == nil && (same.UnmarshalText([]byte(o.String())) != nil || same != o) {
			t.Errorf("order %q is %d, read again %d", text, o, same)
		}
		quoted, err := json.Marshal(text)
		testenv.NoError(t, err)
		for _, data := range [][]byte{[]byte(text), quoted} {
			for _, v := range []json.Unmarshaler{new(Duration), new(Size), new(Time), new(Secret), new(Command)} {
				_ = v.UnmarshalJSON(data)
			}
		}
		if sum, err := ParseAssetSum(text); err == nil && hex.EncodeToString(sum[:]) != text {
			t.Errorf("sum %q is %x", text, sum)
		}
	})
}
