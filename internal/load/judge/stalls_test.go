package judge

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// TestStalls expects a stall of the disk in the text only if latencies rose with it.
func TestStalls(t *testing.T) {
	second := func(n int, commit, beyond float64) report.Sample {
		return report.Sample{Second: n, Internals: report.Internals{CommitMs: commit}, Beyond: beyond}
	}
	usual := func(change func(list []report.Sample)) []report.Sample {
		var list []report.Sample
		for n := -2; n < 20; n++ {
			list = append(list, second(n, 4, 24))
		}
		change(list)
		return list
	}
	for name, c := range map[string]struct {
		change func(list []report.Sample)
		want   string
	}{
		"none":                                   {func([]report.Sample) {}, ""},
		"in one second":                          {func(list []report.Sample) { list[9] = second(7, 480, 519) }, "stalled in 1 of 20 seconds: a commit took up to 480 ms on average, usually 4.0 ms, and results up to 519 ms beyond the linger (p99); in the other seconds at most 24 ms"},
		"acknowledged a second later":            {func(list []report.Sample) { list[9], list[10] = second(7, 480, 30), second(8, 4, 519) }, "stalled in 1 of 20 seconds: a commit took up to 480 ms on average, usually 4.0 ms, and results up to 519 ms"},
		"nobody waited":                          {func(list []report.Sample) { list[9] = second(7, 480, 25) }, ""},
		"before the measurement":                 {func(list []report.Sample) { list[0] = second(-2, 480, 519) }, ""},
		"results waited for another reason, too": {func(list []report.Sample) { list[5], list[9] = second(3, 4, 800), second(7, 480, 519) }, ""},
		"a disk that is always slow": {func(list []report.Sample) {
			for i := range list {
				list[i].CommitMs = 90
			}
			list[9].Beyond = 519
		}, ""},
	} {
		if got := Stalls(usual(c.change)); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := Stalls(nil); got != "" {
		t.Errorf("of no seconds: %q", got)
	}
}
