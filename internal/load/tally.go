package load

import "github.com/HdrHistogram/hdrhistogram-go"

// tally counts what was due in one measured part of a run. Latencies are in microseconds.
type tally struct {
	results uint64 // sent
	acked   uint64
	refused uint64
	frames  uint64
	dropped uint64                  // results not made, because the agent's spool was full
	whole   *hdrhistogram.Histogram // intended → acknowledged
	beyond  *hdrhistogram.Histogram // due to leave (usual linger over, or frame full) → acknowledged
	lag     *hdrhistogram.Histogram // due to leave → handed over to be sent
	batches *hdrhistogram.Histogram // signals per frame
	classes []classShare            // by number; of those that did anything
}

// classShare is one class's part of a tally.
type classShare struct {
	Meant    uint64 `json:"meant"`    // results, also those that no spool took
	Answered uint64 `json:"answered"` // of them
}

// of is a class's part.
func (t *tally) of(class int) *classShare {
	for len(t.classes) <= class {
		t.classes = append(t.classes, classShare{})
	}
	return &t.classes[class]
}

// maxLatency is the top of the histograms, in microseconds: ten minutes.
const maxLatency = 600_000_000

func newTally() *tally {
	latency := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 3) }
	return &tally{whole: latency(), beyond: latency(), lag: latency(), batches: hdrhistogram.New(1, 1000, 3)}
}

func record(h *hdrhistogram.Histogram, ns, times int64) {
	_ = h.RecordValues(min(max(ns/1000, 1), maxLatency), times) // clamped into the range: never an error
}

// merge adds the counts of o, which is at rest; nil: nothing.
func (t *tally) merge(o *tally) {
	if o == nil {
		return
	}
	t.results += o.results
	t.acked += o.acked
	t.refused += o.refused
	t.frames += o.frames
	t.dropped += o.dropped
	t.whole.Merge(o.whole)
	t.beyond.Merge(o.beyond)
	t.lag.Merge(o.lag)
	t.batches.Merge(o.batches)
	for i, s := range o.classes {
		t.of(i).Meant += s.Meant
		t.of(i).Answered += s.Answered
	}
}
