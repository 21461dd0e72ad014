package report

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/queue"
)

// A phase that must settle is compared, second by second, with the phase before the one
// before it: steady, overload, return.

// calm is for how many seconds in a row all must be as before.
const calm = 5

// usually is the percentile of the seconds of a phase that is its level: a disk that stood
// still once must not make everything that follows as before.
const usually = 95

// level is what seconds may show to be as before: what a phase usually shows of latency, the
// most of queues, and a little more.
type level struct {
	p99    float64
	queues map[string]float64
}

// What a second may have beyond that: of a latency a fifth, and what nobody
// notices; of a queue, which is looked at once a second only, as much again.
const (
	slackShare = 1.2
	slackMs    = 10
	queueShare = 2
	slackItems = 1000
	slackBytes = 1 << 20
)

func levelOf(samples []Sample) (l level) {
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
		l.p99 = p99[(len(p99)-1)*usually/100]
	}
	return l
}

// slackOf is how much more a queue may hold than twice the most of before.
func slackOf(name string) float64 {
	if queue.Unit(name) == "bytes" {
		return slackBytes
	}
	return slackItems
}

// holds says whether a second is as before.
func (l level) holds(s *Sample) bool {
	if s.Latency == nil || s.Latency.P99 > slackShare*l.p99+slackMs {
		return false
	}
	for name, depth := range s.Queues {
		if depth > queueShare*l.queues[name]+slackOf(name) {
			return false
		}
	}
	return true
}

// Settled is the first second, from 1, in which all was as in the seconds before and stayed so for a
// while, and how many seconds after that it was not; -1: it never was.
func Settled(before, samples []Sample) (seconds, swung int) {
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

// Within are the samples of a phase: those that ended in it.
func Within(samples []Sample, from, to float64) (list []Sample) {
	for _, s := range samples {
		if float64(s.Second) > from && float64(s.Second) <= to {
			list = append(list, s)
		}
	}
	return list
}

// Drift compares the last quarter of a soak with its second: the first fills caches.
func Drift(name string, samples []Sample) (list []string) {
	quarter := len(samples) / 4
	if quarter < calm {
		return nil
	}
	mean := func(samples []Sample, of func(*Sample) float64) (sum float64) {
		for i := range samples {
			sum += of(&samples[i]) / float64(len(samples))
		}
		return sum
	}
	for _, d := range []struct {
		what  string
		of    func(*Sample) float64
		slack float64
	}{
		{"resident memory of the server, MiB", func(s *Sample) float64 { return float64(s.ServerRSS) / (1 << 20) }, 32},
		{"goroutines of the server", func(s *Sample) float64 { return s.Goroutines }, 50},
		{"p99, ms", func(s *Sample) float64 {
			if s.Latency == nil {
				return 0
			}
			return s.Latency.P99
		}, 20},
	} {
		early, late := mean(samples[quarter:2*quarter], d.of), mean(samples[3*quarter:], d.of)
		if late > slackShare*early+d.slack {
			list = append(list, fmt.Sprintf("%s drifts: %s: %.0f in its second quarter, %.0f in its last", name, d.what, early, late))
		}
	}
	return list
}
