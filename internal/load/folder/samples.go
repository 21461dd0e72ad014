package folder

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/queue"
)

// seconds writes samples.csv during the run, in case the loader dies; Save writes the file anew, with the queues.
type seconds struct {
	file  *os.File
	out   *csv.Writer
	begun bool // it has a second of the timetable
}

// newSeconds creates the file with its head.
func newSeconds(path string) (*seconds, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write samples: %w", err)
	}
	s := &seconds{file: file, out: csv.NewWriter(file)}
	_ = s.out.Write(columns())
	return s, nil
}

// Sample appends a second of the run to samples.csv. Warn and Save report an error; Save tries again.
func (f *Folder) Sample(s report.Sample) {
	f.seconds.begun = f.seconds.begun || s.Phase != report.KindRamp
	_ = f.seconds.out.Write(row(&s))
	f.seconds.out.Flush()
	if err := f.seconds.out.Error(); err != nil && f.Warn != nil && !f.told {
		f.told = true
		f.Warn("warning: the seconds of this run cannot be kept: %v. It goes on; make room before it ends, or there is no report", err)
	}
}

// close closes the file, and ignores that it is closed already.
func (s *seconds) close() error {
	s.out.Flush()
	if err := s.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}

// writeSamples writes a line for each second. A column of a queue is named after it, and
// after the unit where that is bytes.
func writeSamples(w io.Writer, samples []report.Sample) error {
	names := map[string]bool{}
	for _, s := range samples {
		for name := range s.Queues {
			names[name] = true
		}
	}
	queues := slices.Sorted(maps.Keys(names))
	out := csv.NewWriter(w)
	head := columns()
	for _, name := range queues {
		unit := ""
		if queue.Unit(name) == "bytes" {
			unit = "_bytes"
		}
		head = append(head, "queue_"+name+unit)
	}
	_ = out.Write(head) // Flush tells
	for _, s := range samples {
		row := row(&s)
		for _, name := range queues {
			row = append(row, number(s.Queues[name]))
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// columns returns the names of the columns before the queues.
func columns() []string {
	return []string{"second", "phase", "offered", "sent", "acked", "refused", "connected", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "lag_p99_ms",
		"server_cores", "loader_cores", "server_rss_bytes", "loader_rss_bytes", "server_heap_bytes", "server_goroutines", "gc_pause_ms",
		"commits", "syncs", "commit_ms", "written_bytes", "failed", "beyond_p99_ms", "server_lock_share", "loader_lock_share"}
}

// row returns the values of a sample.
func row(s *report.Sample) []string {
	l := report.Latency{}
	if s.Latency != nil {
		l = *s.Latency
	}
	row := []string{strconv.Itoa(s.Second), s.Phase}
	for _, v := range []float64{float64(s.Offered), float64(s.Sent), float64(s.Acked), float64(s.Refused), float64(s.Connected),
		l.P50, l.P90, l.P99, l.P999, l.Max, s.Lag, s.ServerCPU, s.LoaderCPU, float64(s.ServerRSS), float64(s.LoaderRSS),
		s.Heap, s.Goroutines, s.GC, s.Commits, s.Syncs, s.CommitMs, s.Written, float64(s.Failed), s.Beyond, s.Locks, s.OwnLocks} {
		row = append(row, number(v))
	}
	return row
}

// number formats a value with all its digits.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
