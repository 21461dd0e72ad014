package sizing

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
)

//go:generate go test . -run TestPageIsUpToDate -update

func TestPageIsUpToDate(t *testing.T) {
	got, err := Page(os.DirFS("../../../bench/results"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "../../../docs/sizing.md", got)
}

// The page of made reports: rows, rules of thumb that are what the reports were made of, and
// 40,000 agents that do not fit.
func TestPageOfReports(t *testing.T) {
	bounded := func(r *report.Report) {
		r.Environment = &report.Environment{Limits: map[string]string{"open files": "20000"}, Fsync: report.Latency{P50: 0.1, P99: 0.2}}
		r.Metrics = map[string]float64{"muster_connections_limit": 18_976}
		r.Machine.CPU, r.Machine.Kernel, r.Commit = "a processor", "6.1", "0123456789abcdef"
	}
	files := fstest.MapFS{}
	keep := func(name string, rep *report.Report) {
		data, err := json.Marshal(rep)
		if err != nil {
			t.Fatal(err)
		}
		files[name+".json"] = &fstest.MapFile{Data: data}
	}
	keep("sizing-1000", ran(1000, bounded))
	keep("sizing-4000", ran(4000, bounded))
	keep("sizing-10000", ran(10_000, bounded))
	keep("storm-15k-tls", ran(15_000, func(r *report.Report) { r.SessionBytes = 25_000; r.Outages = []report.Outage{{Seconds: 20}} }))
	keep("states-1.5m", ran(10_000, func(r *report.Report) {
		r.StateBytes = 500
		r.States = 1_560_000
	}))
	got, err := Page(files)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "testdata/sizing.golden.md", got)
	for _, want := range []string{
		"| 4,000 | 3,332 | 0.40 | 222 MB | 1.20 MB/s | 60.0 | 600 kB/s | 160 kB/s | 25.0 ms | [sizing-4000](../bench/results/sizing-4000.json) |",
		"| cores | 0 | 0.10 | 0.12 |", "| memory | 62.0 MB | 40.0 MB | 48.0 MB |", "| disk writes | 0 B/s | 300 kB/s | 360 kB/s |",
		"not on one server of that machine: see [below](#40000-agents)", "may have 20,000 files open", "lets 18,976 connections in. With a limit of 41,024 or more",
		"40,000 × 25.0 kB for sessions and 1,040,000 × 500 B for event states, 1.52 GB together", "Measured on 2 cores of a processor, 24.0 GB of memory, Linux 6.1; an fsync takes 0.1 ms (p99 0.2), at commit 0123456789.",
		"--scale 10 --out bench/out/sizing-10000",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	bare, err := Page(fstest.MapFS{})
	if err != nil || !strings.Contains(bare, "| 4,000 | 3,333 | – |") || strings.Contains(bare, "](../bench/results/") || strings.Contains(bare, "NaN") {
		t.Errorf("without any report: %v\n%s", err, bare)
	}
}

// A machine is named once, with what its runs had different.
func TestMachinesAreNamedOnce(t *testing.T) {
	if got := span([]float64{0.11, 0.08, 0.075}); got != "0.075 to 0.11" {
		t.Error(got)
	}
	if got := span([]float64{0.1, 0.1}); got != "0.1" {
		t.Error(got)
	}
	page, err := os.ReadFile("../../../docs/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, measured, _ := strings.Cut(string(page), "\nMeasured on ")
	measured, _, _ = strings.Cut(measured, "\n")
	seen := map[string]bool{}
	for _, m := range strings.Split(measured, "; on ") {
		machine, _, _ := strings.Cut(m, ";")
		if seen[machine] {
			t.Errorf("%s is named twice: %s", machine, measured)
		}
		seen[machine] = true
	}
	if len(seen) == 0 || measured == "" {
		t.Error("the page names no machine")
	}
}
