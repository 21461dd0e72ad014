package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestQueuesAreAsBefore expects that queues are compared in their own unit: a thousand more entries are many more
// bytes.
func TestQueuesAreAsBefore(t *testing.T) {
	second := func(queue string, depth float64) report.Sample {
		return report.Sample{Latency: &report.Latency{P99: 500}, Internals: report.Internals{Queues: map[string]float64{queue: depth}}}
	}
	for _, c := range []struct {
		queue         string
		before, after float64
		want          bool
	}{
		{"event-view-0", 2, 1000, true},
		{"event-view-0", 2, 1100, false},
		{"journal", 2000, 900_000, true},
		{"journal", 2000, 1_100_000, false},
		{"journal", 4e6, 9e6, true},
	} {
		after := second(c.queue, c.after)
		if got := levelOf([]report.Sample{second(c.queue, c.before)}).holds(&after); got != c.want {
			t.Errorf("%s: %v after %v: %t", c.queue, c.after, c.before, got)
		}
	}
}

// TestLongPhasesDrift lets memory, goroutines and latency of the server grow over phases of several lengths, and expects that
// only a long one misses, by each of them.
func TestLongPhasesDrift(t *testing.T) {
	for _, c := range []struct {
		length time.Duration
		grows  bool
		want   int
	}{{time.Hour, true, 3}, {time.Hour, false, 0}, {10 * time.Minute, true, 0}} {
		rep := &report.Report{}
		for second := range int(c.length.Seconds()) {
			times := 1.0
			if c.grows {
				times += 4 * float64(second) / c.length.Seconds()
			}
			rep.Samples = append(rep.Samples, report.Sample{Second: second + 1, ServerRSS: int64(times * 100 * (1 << 20)), Latency: &report.Latency{P99: times * 50}, Internals: report.Internals{Goroutines: times * 1000}})
		}
		tt := &timetable{rep: rep, sc: &scenario.Scenario{Phases: []scenario.Phase{{Steady: model.Duration(c.length)}}},
			Checks: &observe.Checks{Start: &observe.Checked{Report: rep}, Score: []plan.Part{{To: int64(c.length), Rate: 1, Measured: true}}}}
		p := &report.Played{Name: "steady", To: c.length.Seconds()}
		if tt.judgePhase(p, 0, nil); strings.Count(strings.Join(p.Missed, "\n"), "steady drifts: ") != c.want {
			t.Errorf("%s, grows %t: %q", c.length, c.grows, p.Missed)
		}
	}
}

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
