package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/queue"
)

// plain is one line for a log.
func (v *View) plain(s *report.Sample) string {
	text := fmt.Sprintf("%5d s  %-10s %7s %s/s", s.Second, s.Phase, grouped(s.Acked), v.done())
	if s.Offered > 0 || s.Phase != "ramp" {
		text += fmt.Sprintf(" of %s offered", grouped(s.Offered))
	}
	if s.Latency != nil {
		text += fmt.Sprintf("  p50 %s  p99 %s", millis(s.Latency.P50), millis(s.Latency.P99))
	}
	if s.Refused > 0 {
		text += fmt.Sprintf("  %s refused/s", grouped(s.Refused))
	}
	text += fmt.Sprintf("  %s connected", grouped(uint64(max(0, s.Connected)))) + notOpened(s)
	if s.Commits > 0 {
		text += "  commit " + millis(s.CommitMs)
	}
	if s.ServerRSS > 0 {
		text += fmt.Sprintf("  server %.2f cores %d MiB", s.ServerCPU, s.ServerRSS>>20)
	}
	return text + fmt.Sprintf("  loader %.2f cores", s.LoaderCPU)
}

// lines are what is drawn.
func (v *View) lines(s *report.Sample, width int) []string {
	const label = "%-10s "
	row := func(name, format string, args ...any) string {
		return fmt.Sprintf(label, name) + fmt.Sprintf(format, args...)
	}
	curved := func(text string, values []float64) string {
		return text + "   " + spark(values[max(0, len(values)-max(0, width-utf8.RuneCountInString(text)-4)):])
	}
	list := []string{row(s.Phase, "%s", v.progress(s, width-max(11, utf8.RuneCountInString(s.Phase)+1)-1))}
	wide := width >= 80
	results := row("results", "%s %7s/s   offered %7s/s   refused %5s/s", v.done(), grouped(s.Acked), grouped(s.Offered), grouped(s.Refused))
	if !wide { // what matters first, and without room to grow
		results = row("results", "%s/s %s of %s", grouped(s.Acked), v.done(), grouped(s.Offered))
		if s.Refused > 0 {
			results += fmt.Sprintf(", %s refused", grouped(s.Refused))
		}
	}
	list = append(list, curved(results, v.rates))
	if l := s.Latency; l != nil && !wide {
		list = append(list, curved(row("latency", "p99 %s  p50 %s", millis(l.P99), millis(l.P50)), v.tails))
	} else if l != nil {
		list = append(list, curved(row("latency", "p50 %9s   p99 %9s   max %9s", millis(l.P50), millis(l.P99), millis(l.Max)), v.tails))
	}
	list = append(list, row("agents", "%s connected%s   loader %.2f cores, %d MiB, lag p99 %s", grouped(uint64(max(0, s.Connected))), notOpened(s), s.LoaderCPU, s.LoaderRSS>>20, millis(s.Lag)))
	if s.ServerRSS > 0 {
		text := row("server", "%.2f cores   %d MiB", s.ServerCPU, s.ServerRSS>>20)
		if s.Heap > 0 {
			text += fmt.Sprintf(" (heap %.0f)   %s goroutines   collector %s/s", s.Heap/(1<<20), grouped(uint64(s.Goroutines)), millis(s.GC))
		}
		list = append(list, text)
	}
	if s.Commits > 0 {
		list = append(list, row("journal", "%.0f commits/s   %s each   %.0f syncs/s   %.1f MB/s written", s.Commits, millis(s.CommitMs), s.Syncs, s.Written/1e6))
	}
	if text := queues(s.Queues); text != "" {
		list = append(list, row("queues", "%s", text))
	}
	return list
}

// done is what became of the results that are counted.
func (v *View) done() string { return cmp.Or(v.Done, "acknowledged") }

// notOpened says how many connections failed to open in the second; empty: none.
func notOpened(s *report.Sample) string {
	if s.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %s failed", grouped(s.Failed))
}

// progress is a bar, and how far the run is.
func (v *View) progress(s *report.Sample, width int) string {
	at := clock(time.Duration(s.Second) * time.Second)
	if v.length <= 0 {
		return at
	}
	text := fmt.Sprintf(" %s of %s", at, clock(v.length))
	room := min(60, width-len(text)-2)
	if room < 5 {
		return strings.TrimSpace(text)
	}
	share := (time.Duration(s.Second+1)*time.Second + v.before).Seconds() / (v.length + v.before).Seconds()
	full := min(room, max(0, int(share*float64(room))))
	return strings.Repeat("█", full) + strings.Repeat("░", room-full) + text
}

// queues are those that hold something: those of items, then those of bytes, the fullest
// first.
func queues(depths map[string]float64) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(depths)), func(name string) bool { return depths[name] < 1 })
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(-cmp.Compare(queue.Unit(a), queue.Unit(b)), cmp.Compare(depths[b], depths[a]))
	})
	var list []string
	for _, name := range names {
		list = append(list, name+" "+depth(name, depths[name]))
	}
	return strings.Join(list, "   ")
}

// depth is how much waits in a queue, with the unit of bytes.
func depth(name string, d float64) string {
	switch {
	case queue.Unit(name) != "bytes":
		return grouped(uint64(d))
	case d >= 1e6:
		return fmt.Sprintf("%.1f MB", d/1e6)
	case d >= 1e3:
		return fmt.Sprintf("%.0f kB", d/1e3)
	}
	return fmt.Sprintf("%.0f B", d)
}

// spark is a small curve from zero to the largest.
func spark(values []float64) string {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	if most == 0 {
		return ""
	}
	steps := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(steps[min(len(steps)-1, int(v/most*float64(len(steps))))])
	}
	return b.String()
}

// clock is minutes and seconds, and hours where there are some.
func clock(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	n := int(d.Seconds())
	if n >= 3600 {
		return fmt.Sprintf("%s%d:%02d:%02d", sign, n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%s%d:%02d", sign, n/60, n%60)
}

// millis is a time in milliseconds as people say it.
func millis(ms float64) string {
	switch {
	case ms >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}

// grouped is a number with its thousands apart.
func grouped(n uint64) string { return number.Count(int(n)) }
