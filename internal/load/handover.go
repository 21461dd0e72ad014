package load

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// What a loader hands to the one that leads. Histograms go bucket by bucket: sums of them
// are what one loader would have counted.

// Second is what a loader did in one second of the timetable.
type Second struct {
	Number    int     `json:"second"`
	Sent      uint64  `json:"sent"`
	Acked     uint64  `json:"acked"`
	Refused   uint64  `json:"refused"`
	Offered   uint64  `json:"offered"`
	Failed    uint64  `json:"failed"` // connections that were not opened
	Connected int     `json:"connected"`
	Cores     float64 `json:"cores"`
	RSS       int64   `json:"rss"`
	Whole     []byte  `json:"whole"` // packed
	Beyond    []byte  `json:"beyond"`
	Lag       []byte  `json:"lag"`

	whole, beyond, lag *hdrhistogram.Histogram
}

// UnmarshalJSON reads the histograms, too.
func (s *Second) UnmarshalJSON(data []byte) (err error) {
	type plain Second
	if err = json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	whole, beyond, lag := newSeen()
	for _, h := range []struct {
		into **hdrhistogram.Histogram
		like *hdrhistogram.Histogram
		data []byte
	}{{&s.whole, whole, s.Whole}, {&s.beyond, beyond, s.Beyond}, {&s.lag, lag, s.Lag}} {
		if *h.into, err = unpackHistogram(h.like, h.data); err != nil {
			return err
		}
	}
	return nil
}

// Stretch is what was due in one part of the plan, and what the loader used in it.
type Stretch struct {
	Part  int           `json:"part"`
	Tally *tally        `json:"tally"`
	CPU   time.Duration `json:"cpu"`
	RSS   int64         `json:"rss"` // at its end
}

// packedTally is a tally on its way.
type packedTally struct {
	Results uint64       `json:"results"`
	Acked   uint64       `json:"acked"`
	InTime  uint64       `json:"inTime"`
	Current uint64       `json:"current"`
	Refused uint64       `json:"refused"`
	Frames  uint64       `json:"frames"`
	Dropped uint64       `json:"dropped"`
	Whole   []byte       `json:"whole"`
	Beyond  []byte       `json:"beyond"`
	Lag     []byte       `json:"lag"`
	Batches []byte       `json:"batches"`
	Classes []classShare `json:"classes"`
}

// MarshalJSON packs it.
func (t *tally) MarshalJSON() ([]byte, error) {
	return json.Marshal(packedTally{t.results, t.acked, t.inTime, t.current, t.refused, t.frames, t.dropped,
		packHistogram(t.whole), packHistogram(t.beyond), packHistogram(t.lag), packHistogram(t.batches), t.classes})
}

// UnmarshalJSON unpacks it.
func (t *tally) UnmarshalJSON(data []byte) error {
	var p packedTally
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*t = *newTally()
	t.results, t.acked, t.inTime, t.current, t.refused, t.frames, t.dropped, t.classes = p.Results, p.Acked, p.InTime, p.Current, p.Refused, p.Frames, p.Dropped, p.Classes
	for _, h := range []struct {
		into **hdrhistogram.Histogram
		data []byte
	}{{&t.whole, p.Whole}, {&t.beyond, p.Beyond}, {&t.lag, p.Lag}, {&t.batches, p.Batches}} {
		got, err := unpackHistogram(*h.into, h.data)
		if err != nil {
			return err
		}
		*h.into = got
	}
	return nil
}

// Measured is all that a loader counted, once its agents are at rest.
type Measured struct {
	Stretches []Stretch         `json:"stretches"`      // of all parts of the plan
	Offered   []uint32          `json:"offered"`        // by second of the timetable
	Late      int64             `json:"late,omitempty"` // how late it heard that the timetable ends, ns
	Resent    uint64            `json:"resent"`
	Wrong     uint64            `json:"wrong"`     // results that had to be refused …
	WrongKept uint64            `json:"wrongKept"` // … and were taken
	Slowed    int64             `json:"slowed"`
	Refusals  map[string]uint64 `json:"refusals"`
	Failures  map[string]uint64 `json:"failures"`
	Losses    map[string]uint64 `json:"losses"`
	Back      map[int]int64     `json:"back"` // of faults that struck its agents, when all were as before, ns since the beginning; zero: not yet
	Ledgers   observe.Ledgers   `json:"-"`    // of its agents: many, and sent apart
}

// A histogram travels to another loader as its buckets, so that nothing is rounded: for
// each that counted something, how many empty ones are before it, and its count, both as
// varints. Either end knows which values the buckets are of.

// mostCount bounds one bucket: 2^40, so that no sum overflows.
const mostCount = 1 << 40

var errHistogram = errors.New("no histogram of a load run")

func packHistogram(h *hdrhistogram.Histogram) []byte {
	out, empty := []byte{}, uint64(0)
	for _, n := range h.Export().Counts {
		if n == 0 {
			empty++
			continue
		}
		out = binary.AppendUvarint(out, empty)
		out = binary.AppendUvarint(out, uint64(n))
		empty = 0
	}
	return out
}

// unpackHistogram makes one with the buckets of like.
func unpackHistogram(like *hdrhistogram.Histogram, data []byte) (*hdrhistogram.Histogram, error) {
	s := like.Export()
	clear(s.Counts)
	for at := uint64(0); len(data) > 0; at++ {
		empty, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, errHistogram
		}
		count, m := binary.Uvarint(data[n:])
		if m <= 0 || count == 0 || count > mostCount || empty >= uint64(len(s.Counts)) {
			return nil, errHistogram
		}
		if at += empty; at >= uint64(len(s.Counts)) {
			return nil, errHistogram
		}
		s.Counts[at] = int64(count)
		data = data[n+m:]
	}
	return hdrhistogram.Import(s), nil
}
