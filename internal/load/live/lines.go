package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/queue"
)

// row is a named line of the live display.
type row struct{ name, text string }

// rows returns the rows of a second.
func (v *View) rows(s *report.Sample) []row {
	results := fmt.Sprintf("%s %s/s", number.Count(s.Acked), cmp.Or(v.Done, "acknowledged"))
	if s.Offered > 0 || s.Phase != "ramp" {
		results += fmt.Sprintf(" of %s offered", number.Count(s.Offered))
	}
	agents := number.Count(max(0, s.Connected)) + " connected"
	for _, n := range [...]struct {
		n    uint64
		what string
		to   *string
	}{{s.Refused, "refused", &results}, {s.Failed, "failed", &agents}} {
		if n.n > 0 {
			*n.to += fmt.Sprintf(", %s %s", number.Count(n.n), n.what)
		}
	}
	list := []row{{"results", results}}
	if s.Latency != nil {
		list = append(list, row{"latency", fmt.Sprintf("p50 %s  p99 %s", number.Millis(s.Latency.P50), number.Millis(s.Latency.P99))})
	}
	list = append(list, row{"agents", agents})
	if s.Commits > 0 {
		list = append(list, row{"journal", "commit " + number.Millis(s.CommitMs)})
	}
	if s.ServerRSS > 0 {
		list = append(list, row{"server", fmt.Sprintf("server %.2f cores %s", s.ServerCPU, number.Bytes(float64(s.ServerRSS)))})
	}
	return append(list, row{"loader", fmt.Sprintf("loader %.2f cores", s.LoaderCPU)})
}

// line returns the rows as one line, for a log.
func (v *View) line(s *report.Sample) string {
	words := []string{fmt.Sprintf("%5d s  %-10s", s.Second, s.Phase)}
	for _, r := range v.rows(s) {
		words = append(words, r.text)
	}
	return strings.Join(words, "  ")
}

// lines returns the rows for a terminal, below a progress bar and above the deepest queues.
func (v *View) lines(s *report.Sample, width int) []string {
	list := []string{fmt.Sprintf("%-10s %s", s.Phase, v.progress(s, width-12))}
	for _, r := range append(v.rows(s), row{"lag", number.Millis(s.Lag)}, row{"queues", queues(s.Queues)}) {
		if r.text != "" {
			list = append(list, fmt.Sprintf("%-10s %s", r.name, r.text))
		}
	}
	return list
}

// progress returns a progress bar and the time.
func (v *View) progress(s *report.Sample, width int) string {
	at := time.Duration(s.Second) * time.Second
	text := fmt.Sprintf(" %s of %s", at, v.length)
	room := min(60, width-len(text))
	if v.length <= 0 || room < 5 {
		return at.String()
	}
	full := min(room, max(0, int((at+v.before).Seconds()/(v.length+v.before).Seconds()*float64(room))))
	return strings.Repeat("█", full) + strings.Repeat("░", room-full) + text
}

// queues names the queues that hold something, the deepest first.
func queues(depths map[string]float64) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(depths)), func(name string) bool { return depths[name] < 1 })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(depths[b], depths[a]) })
	var list []string
	for _, name := range names {
		depth := number.Count(depths[name])
		if queue.Unit(name) == "bytes" {
			depth = number.Bytes(depths[name])
		}
		list = append(list, name+" "+depth)
	}
	return strings.Join(list, "  ")
}
