package folder

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// writeBench writes what a result cost as a Go benchmark, of which an operation is a
// result: time is the server's CPU, B and allocs are its own. Latencies and the rate are of
// the run. A phase has a line of its own where there are several. What was not measured is
// left out.
func writeBench(w io.Writer, rep *report.Report) error {
	if rep.Results == 0 {
		return nil
	}
	name := "Run"
	if rep.Scenario != nil {
		name = rep.Scenario.Name
	} else if rep.Title != "" {
		name = rep.Title
	}
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/muster-fleet/muster/load\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, cmp.Or(rep.Machine.CPU, "unknown"))
	b := line{out: w, cores: rep.Machine.Cores}
	b.begin(plain(name), rep.Results)
	b.cost(rep.Server)
	if in := rep.Inside; in != nil {
		b.value(in.AllocBytes, "B/op")
		b.value(in.Allocs, "allocs/op")
		b.value(in.WireBytes, "wire-B/op")
		b.value(in.JournalBytes, "journal-B/op")
	}
	if rep.Disk != nil {
		b.value(rep.Disk.PerResult, "disk-B/op")
	}
	if c := rep.Calls; c != nil && rep.Rate > 0 {
		b.value(c.Syncs/rep.Rate, "fsyncs/op")
		b.value(c.Reads/rep.Rate, "reads/op")
		b.value(c.Writes/rep.Rate, "writes/op")
	}
	for _, c := range rep.SystemCalls {
		b.value(c.PerResult, plain(c.Name)+"-calls/op")
	}
	b.value(rep.SessionBytes, "B/agent")
	b.value(rep.StateBytes, "B/state")
	b.latency(rep.Latency, rep.BeyondLinger)
	b.value(rep.Rate, "results/s")
	err := b.end()
	if len(rep.Phases) < 2 {
		return err
	}
	for i, p := range rep.Phases {
		if p.Acknowledged == 0 || p.Latency.Max == 0 {
			continue // nothing was measured in it
		}
		b.begin(plain(name)+fmt.Sprintf("/phase=%d-%s", i+1, plain(cmp.Or(p.Name, p.Kind))), uint64(max(1, p.Acknowledged*(p.To-p.From))))
		b.cost(p.Server)
		b.latency(p.Latency, p.BeyondLinger)
		b.value(p.Acknowledged, "results/s")
		err = b.end()
	}
	return err
}

// line is one benchmark's.
type line struct {
	out   io.Writer
	cores int
	text  strings.Builder
}

func (b *line) begin(name string, times uint64) {
	b.text.Reset()
	fmt.Fprintf(&b.text, "BenchmarkLoad/%s-%d\t%d", name, b.cores, times)
}

func (b *line) value(v float64, unit string) {
	if v > 0 {
		fmt.Fprintf(&b.text, "\t%.6g %s", v, unit)
	}
}

func (b *line) cost(u report.Usage) { b.value(u.MicrosPerItem*1000, "ns/op") }

func (b *line) latency(whole, beyond report.Latency) {
	b.value(whole.P50*1e6, "p50-ns")
	b.value(whole.P99*1e6, "p99-ns")
	b.value(beyond.P50*1e6, "beyond-linger-p50-ns")
	b.value(beyond.P99*1e6, "beyond-linger-p99-ns")
}

func (b *line) end() error {
	_, err := fmt.Fprintln(b.out, b.text.String())
	return err
}
