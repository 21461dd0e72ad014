package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/report"
)

// tally counts what was due in one measured part of a run, and what was acknowledged while it
// lasted. Latencies are in microseconds.
type tally struct {
	results uint64 // sent
	acked   uint64 // of them, whenever it was
	inTime  uint64 // of them, acknowledged or refused soon enough
	current uint64 // acknowledged in the part, by the clock, whenever they were due: beyond their linger
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
	Answered uint64 `json:"answered"` // of them, in time
}

// of is a class's part.
func (t *tally) of(class int) *classShare {
	for len(t.classes) <= class {
		t.classes = append(t.classes, classShare{})
	}
	return &t.classes[class]
}

// share is how much of what was due was answered in time, 0 to 1; nil: nothing was due.
func (t *tally) share() *float64 {
	due := t.results + t.dropped
	if due == 0 {
		return nil
	}
	part := min(1, float64(t.inTime)/float64(due))
	return &part
}

// inTime is how long beyond its linger a result may wait for its answer so that it counts as held.
const inTime = time.Second

func newTally() *tally {
	latency := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 3) }
	return &tally{whole: latency(), beyond: latency(), lag: latency(), batches: hdrhistogram.New(1, 1000, 3)}
}

// merge adds the counts of o, which is at rest; nil: nothing.
func (t *tally) merge(o *tally) {
	if o == nil {
		return
	}
	t.results += o.results
	t.acked += o.acked
	t.inTime += o.inTime
	t.current += o.current
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

const maxLatency = report.MaxLatency

func record(h *hdrhistogram.Histogram, ns, times int64) { report.Record(h, ns, times) }
