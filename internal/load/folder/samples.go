package folder

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/queue"
)

// writeSamples writes a line for each second. A column of a queue is named after it, and
// after the unit where that is bytes.
func writeSamples(w io.Writer, samples []load.Sample) error {
	names := map[string]bool{}
	for _, s := range samples {
		for name := range s.Queues {
			names[name] = true
		}
	}
	queues := slices.Sorted(maps.Keys(names))
	out := csv.NewWriter(w)
	head := []string{"second", "phase", "offered", "sent", "acked", "refused", "connected", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "lag_p99_ms",
		"server_cores", "loader_cores", "server_rss_bytes", "loader_rss_bytes", "server_heap_bytes", "server_goroutines", "gc_pause_ms",
		"commits", "syncs", "commit_ms", "written_bytes", "failed", "beyond_p99_ms"}
	for _, name := range queues {
		unit := ""
		if queue.Unit(name) == "bytes" {
			unit = "_bytes"
		}
		head = append(head, "queue_"+name+unit)
	}
	_ = out.Write(head) // Flush tells
	for _, s := range samples {
		l := load.Latency{}
		if s.Latency != nil {
			l = *s.Latency
		}
		row := []string{strconv.Itoa(s.Second), s.Phase}
		for _, v := range []float64{float64(s.Offered), float64(s.Sent), float64(s.Acked), float64(s.Refused), float64(s.Connected),
			l.P50, l.P90, l.P99, l.P999, l.Max, s.Lag, s.ServerCPU, s.LoaderCPU, float64(s.ServerRSS), float64(s.LoaderRSS),
			s.Heap, s.Goroutines, s.GC, s.Commits, s.Syncs, s.CommitMs, s.Written, float64(s.Failed), s.Beyond} {
			row = append(row, number(v))
		}
		for _, name := range queues {
			row = append(row, number(s.Queues[name]))
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
