package subject

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/report"
)

// fsyncs are enough for a 99th percentile; they take a second or so on a slow disk.
const fsyncs = 250

// Fsync measures n appends of 4 kB, each made durable before the next: what a journal pays
// for a commit on this disk, at the least. The folder must exist; nothing is left in it.
func Fsync(ctx context.Context, dir string, n int) (report.Latency, error) {
	file, err := os.CreateTemp(dir, ".fsync-*")
	if err != nil {
		return report.Latency{}, fmt.Errorf("measure the disk: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, 4096)
	if _, err := rand.Read(block); err != nil { // nothing that a disk could squeeze
		return report.Latency{}, err
	}
	took := hdrhistogram.New(1, report.MaxLatency, 3)
	for range n {
		if err := ctx.Err(); err != nil {
			return report.Latency{}, err
		}
		began := time.Now()
		if _, err := file.Write(block); err != nil {
			return report.Latency{}, fmt.Errorf("measure the disk: %w", err)
		}
		if err := file.Sync(); err != nil {
			return report.Latency{}, fmt.Errorf("measure the disk: %w", err)
		}
		report.Record(took, int64(time.Since(began)), 1)
	}
	return report.LatencyOf(took), nil
}
