package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/queue"
)

// A second is as before if its latency is at most a fifth and 10 ms above the usual level, and each queue has at most twice
// its former maximum and a little: queues are sampled once a second.
const (
	slackShare = 1.2
	slackMs    = 10
	queueShare = 2
	slackItems = 1000
	slackBytes = 1 << 20
	calm       = 5  // seconds in a row that are as before
	usual      = 95 // percentile of the seconds: one stall of the disk does not set the level
)

// level is the usual latency of a phase, and the maximum of its queues.
type level struct {
	p99    float64
	queues map[string]float64
}

// levelOf returns the level of some seconds.
func levelOf(samples []report.Sample) (l level) {
	l.queues = map[string]float64{}
	var p99 []float64
	for i := range samples {
		if s := &samples[i]; s.Latency != nil {
			p99 = append(p99, s.Latency.P99)
		}
		for name, depth := range samples[i].Queues {
			l.queues[name] = max(l.queues[name], depth)
		}
	}
	if slices.Sort(p99); len(p99) > 0 {
		l.p99 = p99[(len(p99)-1)*usual/100]
	}
	return l
}

// holds reports whether the latency and queues of a second are at this level.
func (l level) holds(s *report.Sample) bool {
	if s.Latency == nil || s.Latency.P99 > slackShare*l.p99+slackMs {
		return false
	}
	for name, depth := range s.Queues {
		slack := float64(slackItems)
		if queue.Unit(name) == "bytes" {
			slack = slackBytes
		}
		if depth > queueShare*l.queues[name]+slack {
			return false
		}
	}
	return true
}

// Settled compares the seconds of a phase with those of an earlier one. It returns the first second, counted from 1,
// from which latency and queues stayed as before for a while, or -1, and the number of later seconds that differ.
func Settled(before, samples []report.Sample) (seconds, swung int) {
	l := levelOf(before)
	row := 0
	for i := range samples {
		if row++; !l.holds(&samples[i]) {
			row = 0
		}
		if row < calm {
			continue
		}
		for j := i + 1; j < len(samples); j++ {
			if !l.holds(&samples[j]) {
				swung++
			}
		}
		return i + 2 - calm, swung
	}
	return -1, 0
}

// driftFrom is the length of the shortest steady phase that is judged for drift.
const driftFrom = 30 * time.Minute

// drift compares the last quarter of a long phase with its second quarter, because caches fill in the first.
func drift(name string, samples []report.Sample) (list []string) {
	quarter := len(samples) / 4
	if quarter < calm {
		return nil
	}
	compare := func(what string, slack float64, of func(*report.Sample) float64) {
		mean := func(samples []report.Sample) (sum float64) {
			for i := range samples {
				sum += of(&samples[i]) / float64(len(samples))
			}
			return sum
		}
		early, late := mean(samples[quarter:2*quarter]), mean(samples[3*quarter:])
		if late > slackShare*early+slack {
			list = append(list, fmt.Sprintf("%s drifts: %s: %.0f in its second quarter, %.0f in its last", name, what, early, late))
		}
	}
	compare("resident memory of the server, MiB", 32, func(s *report.Sample) float64 { return float64(s.ServerRSS) / (1 << 20) })
	compare("goroutines of the server", 50, func(s *report.Sample) float64 { return s.Goroutines })
	compare("p99, ms", 20, func(s *report.Sample) float64 {
		if s.Latency == nil {
			return 0
		}
		return s.Latency.P99
	})
	return list
}

// A second has a stall if a commit of the server took this many times as long as in the median second, and this many ms.
const (
	stallTimes = 5
	stallMs    = 20
)

// Stalls names the seconds with slow commits of the server, which wait for the disk, and the latency that they caused;
// empty if there are none, or they caused none.
func Stalls(samples []report.Sample) string {
	var commits, latencies []float64
	for i := range samples {
		if s := &samples[i]; s.Second >= 0 && s.CommitMs > 0 {
			commits, latencies = append(commits, s.CommitMs), append(latencies, s.Beyond)
		}
	}
	usual, usualLatency := median(slices.Clone(commits)), median(slices.Clone(latencies))
	n, commit, latency, others := 0, 0.0, 0.0, 0.0
	for i := range commits {
		near := slices.Max(latencies[i:min(i+2, len(latencies))]) // results of a stall are acknowledged after it
		switch stalled := commits[i] >= max(stallMs, stallTimes*usual); {
		case stalled && near > 2*usualLatency:
			n, commit, latency = n+1, max(commit, commits[i]), max(latency, near)
		case i == 0 || commits[i-1] < max(stallMs, stallTimes*usual):
			others = max(others, latencies[i])
		}
	}
	if n == 0 || latency <= others {
		return ""
	}
	return fmt.Sprintf("the server's commits stalled in %d of %d seconds: a commit took up to %.0f ms on average, usually %.1f ms, and results up to %.0f ms beyond the linger (p99); in the other seconds at most %.0f ms",
		n, len(commits), commit, usual, latency, others)
}
