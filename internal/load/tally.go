package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts what the agents of one sender did in the measured part of a run.
// Latencies are in microseconds.
type tally struct {
	mu       sync.Mutex
	from, to int64 // measured: intended in this span, ns since the beginning

	results uint64 // sent
	acked   uint64
	refused uint64
	frames  uint64
	resent  uint64                  // signals sent again after a reconnect
	dropped uint64                  // results not made, because the agent's spool was full
	whole   *hdrhistogram.Histogram // intended → acknowledged
	beyond  *hdrhistogram.Histogram // due to leave (linger over, or frame full) → acknowledged
	lag     *hdrhistogram.Histogram // due to leave → handed over to be sent
	batches *hdrhistogram.Histogram // signals per frame
	reasons map[string]uint64       // refusals by code
}

// maxLatency is the top of the histograms, in microseconds: ten minutes.
const maxLatency = 600_000_000

func newTally(from, to time.Duration) *tally {
	latency := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 3) }
	return &tally{from: int64(from), to: int64(to), whole: latency(), beyond: latency(), lag: latency(),
		batches: hdrhistogram.New(1, 1000, 3), reasons: map[string]uint64{}}
}

func record(h *hdrhistogram.Histogram, ns, times int64) {
	_ = h.RecordValues(min(max(ns/1000, 1), maxLatency), times) // clamped into the range: never an error
}

func (t *tally) measured(intended int64) bool { return intended >= t.from && intended < t.to }

// frame counts one that leaves the generator.
func (t *tally) frame(f *frame, now int64) {
	t.mu.Lock()
	if t.measured(f.due) {
		t.frames++
		t.results += uint64(len(f.each))
		record(t.lag, now-f.due, 1)
		_ = t.batches.RecordValue(int64(len(f.each)))
	}
	t.mu.Unlock()
}

// spoolFull counts a result that a full spool did not take.
func (t *tally) spoolFull(intended int64) {
	t.mu.Lock()
	if t.measured(intended) {
		t.dropped++
	}
	t.mu.Unlock()
}

// merge adds the counts of o, which is at rest.
func (t *tally) merge(o *tally) {
	t.results += o.results
	t.acked += o.acked
	t.refused += o.refused
	t.frames += o.frames
	t.resent += o.resent
	t.dropped += o.dropped
	t.whole.Merge(o.whole)
	t.beyond.Merge(o.beyond)
	t.lag.Merge(o.lag)
	t.batches.Merge(o.batches)
	for k, n := range o.reasons {
		t.reasons[k] += n
	}
}
