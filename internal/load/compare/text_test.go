package compare

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
)

// sides are three sets of reports made by hand: the second allocates more and is slower,
// the third is better, and its disk is another.
func threeSets() (base, worse, better Set) {
	base, worse, better = set("old", 0, -0.004, 0.001, 0, 0.003, -0.002), set("new", 1, 0, 0.002, -0.001, 0.004, -0.003), set("tuned", 1, -0.25, -0.249, -0.251, -0.252, -0.248)
	for i, r := range worse.Runs {
		r.Inside.Allocs *= 1.22
		r.BeyondLinger.P99 *= 1.4 + float64(i)/100
		r.Rate *= 0.999
		r.Goals = []report.Goal{{Name: "beyond-p99", Want: 35.2, Got: r.BeyondLinger.P99, Met: r.BeyondLinger.P99 <= 35.2}, {Name: "rate", Want: 990, Got: 999, Met: true}}
		r.Disk.PerResult *= 1 + 0.06*float64(i%2) // two minds
	}
	worse.Runs[2].Balance.Missing = 3
	for _, r := range better.Runs {
		r.Environment.Device, r.Environment.Fsync.P50 = "/dev/sdb", 0.2
	}
	return base, worse, better
}

func TestText(t *testing.T) {
	base, worse, better := threeSets()
	two := []*Comparison{Compare(base, worse)}
	three := []*Comparison{two[0], Compare(base, better)}
	few := set("few", 1, 0.1, 0.2)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"two":      func(b *bytes.Buffer) error { return Text(b, two, false) },
		"wide":     func(b *bytes.Buffer) error { return Text(b, two, true) },
		"three":    func(b *bytes.Buffer) error { return Text(b, three, false) },
		"markdown": func(b *bytes.Buffer) error { return Markdown(b, three) },
		"few":      func(b *bytes.Buffer) error { return Text(b, []*Comparison{Compare(base, few)}, false) },
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".golden")
			testenv.Golden(t, file, got.Bytes())
		})
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.00123: "0.00123", 0.5: "0.5", 1.234: "1.23", 12.34: "12.3", 99.96: "100", 1234.5: "1,234", 1234567: "1,234,567", -1234: "-1,234", 100: "100", 20: "20"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
